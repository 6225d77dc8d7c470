package breached

import "unsafe"

// faultIn reports whether a panic is of reading one of these files.
func faultIn(r any, files [2]*file) bool {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok {
		return false
	}
	for _, f := range files {
		if f == nil || len(f.data) == 0 {
			continue
		}
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
		if a := fault.Addr(); a >= begin && a-begin < uintptr(len(f.data)) {
			return true
		}
	}
	return false
}
