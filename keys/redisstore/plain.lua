-- A take of one bucket, of one limit whose only rung is verify at empty, on which
-- nothing else bears: a plan limit's, most of all. It is what the rest of the
-- script would come to, by a shorter way; bakeTake writes the limit's numbers in.
-- Whatever is not plain (another form of the stored value, a clock that stepped
-- back, a cost above the capacity, a TTL that is gone) goes the long way.
if string.sub(ARGV[1], 25, $end) == '$plain' then
  local now, deadline, cost = struct.unpack('<ddd', ARGV[1])
  if now == 0 then
    local t = redis.call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  if deadline > 0 and now > deadline then return struct.pack('<Bd', 1, now) end -- late
  local value, left, plain = redis.call('MGET', KEYS[1])[1], $units, cost <= $capacity
  if value then
    local head, stamp, id, spent, units
    if #value == 26 then head, stamp, id, spent, units = struct.unpack('<BI7I4I7I7', value) end
    if head == 2 and id == $id and units == $units and spent <= units and stamp <= now then
      local back = (now - stamp) * $count
      if back < spent then left = units - spent + back end
    else
      plain = false
    end
  end
  local let = left >= (cost > 1 and cost or 1) * $period
  if plain and (let or not value or redis.call('PTTL', KEYS[1]) ~= -1) then
    local taken = let and cost > 0
    if taken then
      left = left - cost * $period
      local ms = (($units - left) / $count + 60000000) / 1000
      redis.call('SET', KEYS[1], struct.pack('<BI7I4I7I7', 2, now, $id, $units - left, $units), 'PX', string.format('%d', ms - ms % 1 + 1))
    end
    return struct.pack('$replyBd', 0, now, $shape, 0, 0, 0, 0, 0, let and 1 or 0, taken and 1 or 0, let and 0 or 3, 0, 0, 1, 1,
      0, 0, 0, string.sub(ARGV[1], $identity, $body), let and (taken and 3 or 1) or 13, left)
  end
end
