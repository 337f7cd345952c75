package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// private is the memory of the processes that they don't share with a file or each other.
func private(pids []int) int64 {
	var sum int64
	for _, pid := range pids {
		body, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(body))
		if len(f) < 3 {
			continue
		}
		resident, _ := strconv.ParseInt(f[1], 10, 64)
		shared, _ := strconv.ParseInt(f[2], 10, 64)
		sum += (resident - shared) * int64(os.Getpagesize())
	}
	return sum
}

// deleted is what files take up that processes hold open after removing their last name: no walk of folders finds them.
func deleted(pids []int, dir string) int64 {
	var home unix.Stat_t
	if unix.Stat(dir, &home) != nil {
		return -1
	}
	var sum int64
	seen := map[uint64]bool{}
	for _, pid := range pids {
		fds := fmt.Sprintf("/proc/%d/fd", pid)
		f, err := os.Open(fds)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(1024)
		f.Close()
		for _, n := range names {
			var st unix.Stat_t
			if unix.Stat(fds+"/"+n, &st) != nil || st.Dev != home.Dev || st.Nlink != 0 || seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
			sum += st.Blocks * 512
		}
	}
	return sum
}
