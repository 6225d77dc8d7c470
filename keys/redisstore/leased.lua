-- The reply of a lease.
return spack('<Bddd', 0, now, granted, r[results + 1])
