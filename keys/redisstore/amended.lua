-- The reply of a settle.
return spack('<BdBB' .. string.rep('Bd', limits), 0, now, expired and 1 or 0, done and 1 or 0, unpack(r, results, last))
