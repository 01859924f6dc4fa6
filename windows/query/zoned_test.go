package query

import (
	"testing"

	"tidemark/windows"
)

// Every zone's offsets fit into the text that goes to DuckDB. Z2
func TestOffsetsOfAZoneAreATextThatIsParsed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Berlin", "Africa/Casablanca", "America/New_York", "UTC"} {
		z, err := windows.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		sql := offsetsSQL(z)
		if len(sql) > maxTextBytes {
			t.Errorf("%s: %d bytes", name, len(sql))
		}
	}
}
