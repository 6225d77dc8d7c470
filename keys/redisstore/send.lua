-- SendCode: keys/codes_judge.go. KEYS: 1 the account's codes, 2 the sender, and
-- the marks that the header points at. ARGV: 1 header. codes.go has the layouts.
-- A sender is '<c16d' three times: account and time of its latest mail.

local now, deadline, issued, notBefore, expires, uses, rung, iProof, iRevoked, account =
  sunpack('<ddddddBBBc16', ARGV[1])
now = clock(now)
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local v = call('MGET', unpack(KEYS))
local r = readCode(v[1])
local live = lives(r, now)
local sends = {}
for i = 1, #r.sends do
  if recent(r.sends[i], now) then sends[#sends + 1] = r.sends[i] end
end
r.sends = sends

local sender, slot, known = {}, nil, false
for i = 1, 3 do
  local who, at = string.rep('\0', 16), 0
  if v[2] and #v[2] == 72 then who, at = sunpack('<c16d', v[2], 24 * i - 23) end
  sender[i] = { who, at }
  if at == 0 or not recent(at, now) then
    if not known then slot = i end
  elseif who == account and not known then
    slot, known = i, true
  end
end
local priced = slot == nil
local function keepSender()
  sender[slot] = { account, now }
  local value = ''
  for i = 1, 3 do value = value .. spack('<c16d', sender[i][1], sender[i][2]) end
  arithmetic().mark(KEYS[2], value, now + window, now)
end
local unsure = live and r.tried > 0
local again = unsure or live and (r.again[1] == 0 or not recent(r.again[1], now))

-- The proof: used 1, expired 2, spent 3, too early 4, insufficient 5, invalid 6.
local proof, used = 0, 0
if iProof > 0 then
  used = v[iProof] and arithmetic().two(v[iProof]) or 0
  proof = issued <= (one(v[iRevoked]) or 0) and 6 or now >= expires and 2 or used >= uses and 3
    or now < notBefore and 4 or rung < 2 and 5 or 1
end
local paid = proof == 1

local state -- priced 0, lives 1, sent 2, again 3
if again and paid then
  state = 3
  if unsure then r.tried = now else r.again = { r.again[2], r.again[3], now } end
  keepCode(KEYS[1], r, now)
elseif unsure and not priced and (now - r.tried >= 900000000 or r.tried - now > 900000000) then
  state = 3
  r.tried = now
  keepCode(KEYS[1], r, now)
  keepSender()
elseif live and (paid or not priced) then
  state = 1
  if paid then proof = 0 end -- it was not needed
elseif priced and not paid then
  state = 0
  r = readCode(nil)
else
  state = 2
  if r.serial - now > window then r.serial = 0 end -- of a broken clock
  r.serial, r.sent = math.max(now, r.serial + 1), now
  if #sends == 16 then table.remove(sends, 1) end
  sends[#sends + 1] = r.serial
  r.nth, r.till = #sends, now + math.min(900000000 * 2 ^ (#sends - 1), 43200000000)
  r.tried = now
  keepCode(KEYS[1], r, now)
  if not priced then
    if paid then proof = 0 end
    keepSender()
  end
end
if proof == 1 then
  local till = expires + 1200000000 -- keys.ProofMemory
  arithmetic().mark(KEYS[iProof], spack('<dd', used + 1, till), till, now)
end
return spack('<BdddddBBc16', 0, now, r.serial, r.sent, r.till, r.nth, state, proof, account)
