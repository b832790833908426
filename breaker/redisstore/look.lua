-- KEYS[1]  the key
-- returns  age in µs, version or '', record or ''
local time = redis.call('TIME')
local is = redis.call('HMGET', KEYS[1], 'v', 'r', 't')
return {is[3] and math.max(0, time[1] * 1000000 + time[2] - is[3]) or 0, is[1] or '', is[2] or ''}
