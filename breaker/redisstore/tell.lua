-- KEYS[1]  the key
-- ARGV     caller, count, '1' for the counts of all, Keep in ms, KeepCounts in µs, how many callers
-- returns  age in µs, version or '', record or '', and with all: caller, age, count for each
local key, field, count = KEYS[1], 'c:' .. ARGV[1], ARGV[2]
local keep, young, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- counts takes away what is too old, and returns the others. It looks at all of them.
local function counts()
  local all, out = redis.call('HGETALL', key), {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'c:' then
      local at, told = string.match(all[i + 1], '^(%d+) (.*)$')
      local age = at and math.max(0, now - at)
      if age and age < young then
        out[#out + 1] = string.sub(all[i], 3)
        out[#out + 1] = age
        out[#out + 1] = told
      else
        redis.call('HDEL', key, all[i])
      end
    end
  end
  return out
end

-- room is whether one caller more may be kept: of a full key what is too old makes room, looked for once a second at most.
local function room()
  if redis.call('HLEN', key) < most + 4 then
    return true
  end
  local pruned = redis.call('HGET', key, 'p')
  if pruned and math.abs(now - pruned) < 1000000 then
    return false
  end
  redis.call('HSET', key, 'p', string.format('%.0f', now))
  counts()
  return redis.call('HLEN', key) < most + 4
end

if count == '' then
  redis.call('HDEL', key, field)
elseif redis.call('HEXISTS', key, field) == 1 or room() then
  redis.call('HSET', key, field, string.format('%.0f ', now) .. count)
end
if redis.call('PTTL', key) < keep then
  redis.call('PEXPIRE', key, keep + 60000) -- a minute more, so that it isn't written each time
end
local is = redis.call('HMGET', key, 'v', 'r', 't')
local out = {is[3] and math.max(0, now - is[3]) or 0, is[1] or '', is[2] or ''}
if ARGV[3] == '1' then
  for _, c in ipairs(counts()) do
    out[#out + 1] = c
  end
end
return out
