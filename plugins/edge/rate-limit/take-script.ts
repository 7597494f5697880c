/** A hold in Redis ends after this time, in microseconds. Tokens that were not returned by then count as spent. */
const holdMicros = 2_000_000;

/**
 * A call changes one bucket. A hold is a number of tokens that a replica may use without asking again.
 *
 * `KEYS[1]` is a hash: `l` is the level in units, `a` the time of the last refill in microseconds, and each other field
 * is the hold of that name: `<tokens> <end of the hold>`. A missing bucket is full.
 *
 * Arguments: 1 the name of the caller's hold; 2 the number of requests that wait for a token; 3 tokens used from the
 * hold since the last call; 4 tokens of the hold that are returned; 5 tokens that the replica allowed while Redis was
 * unreachable; 6 the number of replicas; 7 units per microsecond; 8 units of a full bucket.
 *
 * Returns the tokens taken, the tokens added to the hold, and the level as a string, because replies have no fractions
 * and `tostring` rounds.
 *
 * The level and the holds together never exceed the capacity: while there are holds, the bucket refills only up to the
 * rest. So in any time t, at most burst + rate × t requests pass, even if a replica uses its tokens at the last moment.
 * Each of N replicas holds at most 1/(4 N) of the remaining tokens. All together hold at most a quarter of the
 * capacity, and add nothing to their holds if fewer than 4 N tokens are left.
 */
export const takeScript = `
local unit = 1e9
local me = ARGV[1]
local waiting, used, returned = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local debt, replicas = tonumber(ARGV[5]), tonumber(ARGV[6])
local rate, capacity = tonumber(ARGV[7]), tonumber(ARGV[8])
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

local level, at, held, own = capacity, now, 0, 0
local holds = {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == 'l' then level = tonumber(value)
  elseif name == 'a' then at = tonumber(value)
  else
    local tokens, ends = string.match(value, '^(%d+) (%d+)$')
    local hold = { name = name, tokens = tonumber(tokens), ends = tonumber(ends) }
    if name == me then own = hold.tokens end
    held = held + hold.tokens
    holds[#holds + 1] = hold
  end
end

-- After a failover to a server with another clock, stored times can be far in the future.
local latest = now + 1e7
if at > latest then at = now end
local function refill(till)
  if till > at then
    local elapsed = till - at
    at = till
    if elapsed * rate < capacity then level = level + elapsed * rate else level = capacity end
  end
  level = math.min(level, capacity - held * unit)
end
table.sort(holds, function(a, b) return a.ends < b.ends end)
local ended, ownHeld = {}, own
for _, hold in ipairs(holds) do
  if hold.ends <= now or hold.ends > latest then
    refill(math.min(hold.ends, now))
    held = held - hold.tokens
    ended[#ended + 1] = hold.name
    if hold.name == me then ownHeld = 0 end
  end
end
refill(now)

held = held - ownHeld
own = math.max(0, own - used)
returned = math.min(returned, own)
own = own - returned
level = math.min(level + (returned - debt) * unit, capacity - (held + own) * unit)
level = math.max(0, level)

local tokens = math.floor(level / unit)
local taken = math.min(waiting, tokens)
tokens = tokens - taken
local lent = math.max(0, math.floor((tokens + own) / (4 * replicas)) - own)
own = own + lent
level = level - (taken + lent) * unit

ended[#ended + 1] = me
redis.call('HDEL', KEYS[1], unpack(ended))
redis.call('HSET', KEYS[1], 'l', string.format('%.0f', level), 'a', string.format('%.0f', at))
if own > 0 then
  redis.call('HSET', KEYS[1], me, string.format('%.0f %.0f', own, now + ${holdMicros}))
end
-- A bucket that would be full is removed. One that hardly refills is kept for a year.
local fillMs = math.min(capacity / math.max(rate, 1e-9) / 1000, 31536000000)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', fillMs + ${holdMicros / 1000} + 1000))
return { taken, lent, string.format('%.0f', level) }
`;
