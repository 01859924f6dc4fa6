//go:build cgo && !race

package history

const raceDetector = false
