-- What has to be written is. heal: a bucket that is there, is not written and
-- has no TTL gets one.
local sformat = string.format
p, o = 10, results
for t = first, first + tiers - 1 do
  local n, write = r[p + 1], r[p + 2] == 1
  if write or heal and v[t] and call('PTTL', KEYS[t]) == -1 then
    local key, q, us = KEYS[t], p + 7, -1
    for i = o + 1, o + 2 * n, 2 do
      if r[q + 1] > 0 then
        local full = (r[q + 3] - r[i]) / r[q + 1]
        if full > us then us = full end
      end
      q = q + 7
    end
    -- Until it is full, and slack; any fraction is rounded up.
    local ms = (us + r[p + 3] - now + 60000000) / 1000
    ms = ms - ms % 1 + 1
    q = p + 7
    if write then
      if r[p + 5] > 0 then
        local had = call('PTTL', key) -- the longer of old and new time to full
        if had > ms then ms = had end
      end
      local value
      if n == 1 and r[q + 1] > 0 then
        value = spack('<BI7I4I7I7', 2 + r[p + 4], r[p + 3], r[q], r[q + 3] - r[o + 1], r[q + 3])
      elseif n == 2 and r[q + 1] > 0 and r[q + 8] > 0 then
        value = spack('<BI7I4I7I7I4I7I7', 2 + r[p + 4], r[p + 3], r[q], r[q + 3] - r[o + 1], r[q + 3],
          r[q + 7], r[q + 10] - r[o + 3], r[q + 10])
      else
        value = spack('<BI7', 2 + r[p + 4], r[p + 3])
        for i = o + 1, o + 2 * n, 2 do
          if r[q + 1] > 0 then value = value .. spack('<I4I7I7', r[q], r[q + 3] - r[i], r[q + 3]) end
          q = q + 7
        end
      end
      if r[p + 5] == 2 then value = value .. arithmetic().kept(v[t], r, p) end
      call('SET', key, value, 'PX', sformat('%d', ms))
    elseif us >= 0 then
      call('PEXPIRE', key, sformat('%d', ms))
    end
  end
  o = o + 2 * n
  p = p + 7 + 7 * n
end
