-- LiveCode, SpendCode, UnsendCode and ConfirmCode. KEYS[1] the account's codes.
-- ARGV[1] the header: what is to be done is 0, 1, 2 or 3. The reply says what lived before.

local now, deadline, serial, deed = sunpack('<dddB', ARGV[1])
now = clock(now)
if deadline > 0 and now > deadline then return spack('<Bd', 1, now) end -- late

local r = readCode(call('MGET', KEYS[1])[1]) -- MGET: another type is no error
local live = lives(r, now)
local reply = spack('<BddddddB', 0, now, live and r.serial or 0, live and r.sent or 0, live and r.till or 0, live and r.nth or 0,
  serial, deed == 1 and live and r.serial == serial and 1 or 0)
if deed == 1 and live and r.serial == serial then
  r.till = 0
  keepCode(KEYS[1], r, now)
elseif deed == 3 and serial == r.serial and r.till > 0 and r.tried > 0 then
  r.tried = delivered
  keepCode(KEYS[1], r, now)
elseif deed == 2 and not (serial == r.serial and (r.till == 0 or r.tried == delivered)) then -- a spent code was delivered, too
  for i = 1, #r.sends do
    if r.sends[i] == serial then
      table.remove(r.sends, i)
      if serial == r.serial then r.till = 0 end
      keepCode(KEYS[1], r, now)
      break
    end
  end
end
return reply
