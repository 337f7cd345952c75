//go:build !race

package visual

const raceEnabled = false
