-- KEYS[1]  the key
-- ARGV     the version that must be there or '', the new one, the record, Keep in ms, the channel
-- returns  1 or 0, age in µs, version or '', record or ''
local key, new = KEYS[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local is = redis.call('HMGET', key, 'v', 'r', 't')
local version, age = is[1] or '', is[3] and math.max(0, now - is[3]) or 0
if version == new then
  return {1, age, version, is[2]} -- a client that has lost the answer asks again
end
if version ~= ARGV[1] then
  return {0, age, version, is[2] or ''}
end
redis.call('PUBLISH', ARGV[5], new .. ' ' .. key) -- first: where it isn't allowed, nothing has been written
redis.call('HSET', key, 'v', new, 'r', ARGV[3], 't', string.format('%.0f', now))
redis.call('PEXPIRE', key, ARGV[4] + 60000)
return {1, 0, new, ARGV[3]}
