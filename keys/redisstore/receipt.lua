-- The reply of a give.
return spack('<BdBBBBB', 0, now, 0, 1, prior, failures, gave)
