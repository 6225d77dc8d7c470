-- The decision.
local status, let, taken, needed, wait, causes, device, familiar, proof = 0, false, false, 0, 0, 0, 0, false, 0
local tokens = 1
local used = 0
local repeated = false
local revoked = v[iRevoked] and one(v[iRevoked]) or 0
if revoked < 0 then revoked = 0 end

if cost > 1 then
  tokens = cost
  p = 10
  for t = 1, tiers do
    local end_ = p + 7 * r[p + 1]
    local ask = costs and costs[t] or cost
    for q = p + 7, end_, 7 do
      if r[q + 1] > 0 and ask > r[q + 3] / r[q + 2] then status = 3 end -- impossible
    end
    p = end_ + 7
  end
end

if status == 0 then
  local place = v[iPlace] and one(v[iPlace]) or 0
  familiar = place > revoked and now - place < 2592000000000

  -- A password that was wrong of late (keys/wrong.go): its tags go before the body.
  local wrong = v[iWrong]
  if wrong and #wrong % 16 == 0 and #wrong <= 128 then
    local today, yesterday = sub(ARGV[1], -32, -25), sub(ARGV[1], -24, -17)
    for at = 1, #wrong, 16 do
      local tag = sub(wrong, at, at + 7)
      if tag == today or tag == yesterday then
        local last = one(sub(wrong, at + 8, at + 15)) or 0
        if last > revoked and now - last < 86400000000 then repeated = true end
      end
    end
  end

  -- The device: known 1, spent 2, invalid 3. Its tiers go with a cost of at most 1.
  if issued ~= 0 then
    device = (now >= expires or issued <= revoked) and 3 or 1
    local full, distrusted = true, false
    p, o = 10, results
    for t = 1, tiers do
      local role, end_ = r[p], p + 7 * r[p + 1]
      if role >= 16 then
        for q = p + 7, end_, 7 do
          local left = r[o + 1]
          if device == 3 then
            r[o] = 0
          else
            if role == 16 and left ~= r[q + 3] then full = false end
            if left < r[q + 2] then
              device = 2
              -- One of its own is empty: it counts for nothing until all are full.
              if role == 16 and r[p + 4] == 0 then r[p + 2], r[p + 4] = 1, 1 end
            end
          end
          o = o + 2
        end
        if role == 16 and r[p + 4] == 1 then distrusted = true end
      else
        o = o + 2 * r[p + 1]
      end
      p = end_ + 7
    end
    if device ~= 3 and distrusted and not full then device = 2 end
    p, o = 10, results
    for t = 1, tiers do
      local role, n = r[p], r[p + 1]
      if role == 16 and full and device ~= 3 then r[p + 4] = 0 end -- forgotten when it is next written
      if role < 16 and device == 1 then
        for i = o, o + 2 * n - 2, 2 do r[i] = 0 end -- its own tiers stand instead of all others
      end
      o = o + 2 * n
      p = p + 7 + 7 * n
    end
  end

  -- The needed rung.
  if device ~= 1 then
    local below = -1 -- the most whole tokens below a threshold of delay
    p, o = 10, results
    for t = 1, tiers do
      local role, end_ = r[p], p + 7 * r[p + 1]
      if role >= 16 then
        o = o + 2 * r[p + 1]
      else
        local skip = familiar and role % 2 == 1
        if costs then tokens = costs[t] end
        for q = p + 7, end_, 7 do
          if skip then
            r[o] = 0
          elseif r[o] == 1 then
            local left, need, rung = r[o + 1], tokens * r[q + 2], 0
            local empty = left < need
            if left <= r[q + 6] or empty and r[q + 6] ~= -1 then
              rung = 3
            elseif left <= r[q + 5] or empty and r[q + 5] ~= -1 then
              rung = 2
            else
              local at = r[q + 4]
              if at ~= -1 and at < need then at = need - 1 end
              if left <= at then
                rung = 1
                local whole = at - left
                whole = (whole - whole % r[q + 2]) / r[q + 2]
                if whole > below then below = whole end
              end
            end
            if rung > 0 then
              r[o] = 1 + 4 * rung
              if rung > needed then needed = rung end
            end
          end
          o = o + 2
        end
      end
      p = end_ + 7
    end

    local base, max = r[4], r[5]
    if below >= 0 then
      wait = base
      while below > 0 and wait > 0 and wait < max do
        wait = wait * 2
        below = below - 1
      end
      if wait > max then wait = max end
    end
    local byPosture, bySuspect = 0, 0
    if not familiar then
      byPosture = effect % 4
      local till1, till2 = v[iSuspect1] and one(v[iSuspect1]), v[iSuspect2] and one(v[iSuspect2])
      local till3 = v[iSuspect3] and one(v[iSuspect3])
      if till1 and now < till1 or till2 and now < till2 or till3 and now < till3 then bySuspect = 2 end
    end
    if floor > needed then needed = floor end
    if byPosture > needed then needed = byPosture end
    if bySuspect > needed then needed = bySuspect end
    if needed ~= 1 then
      wait = 0
    elseif (floor == 1 or byPosture == 1) and base > wait then
      wait = base
    end
    if needed > 0 then
      causes = (byPosture == needed and 1 or 0) + (bySuspect == needed and 2 or 0) + (floor == needed and 4 or 0)
    end
  end

  -- The proof: used 1, expired 2, spent 3, too early 4, insufficient 5, invalid 6.
  let = needed == 0
  if iProof > 0 then
    used = v[iProof] and arithmetic().two(v[iProof]) or 0
    if proofIssued <= revoked then
      proof = 6
    elseif now >= proofExpires then
      proof = 2
    elseif used >= proofUses then
      proof = 3
    elseif now < proofNotBefore then
      proof = 4
    elseif not let then
      if proofRung < needed then
        proof = 5
      elseif proofRung == 1 and proofWait < wait then
        proof = 4
      else
        proof = 1
        let = true
      end
    end
  end

  -- Taking.
  if cost > 0 and (let or shadow == 1) then
    taken = true
    p, o = 10, results
    for t = 1, repeated and 0 or tiers do
      local role, end_ = r[p], p + 7 * r[p + 1]
      if role < 16 or device == 1 then
        if costs then tokens = costs[t] end
        for q = p + 7, end_, 7 do
          if r[o] > 0 then
            local left = r[o + 1] - tokens * r[q + 2]
            if left >= 0 then
              r[o], r[o + 1], r[p + 2] = r[o] + 2, left, 1
              if role == 16 and left < r[q + 2] then r[p + 4] = 1 end -- its last guess on trust
            end
          end
          o = o + 2
        end
      else
        o = o + 2 * r[p + 1]
      end
      p = end_ + 7
    end
  end
else
  tiers = 0 -- nothing is written
end
local heal = not let
