-- The reply of a charge.
return spack('<BdB', 0, now, 1)
