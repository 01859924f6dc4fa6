package runtime

import (
	"encoding/binary"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// The keys of a view; see the package comment. All numbers are big endian.

func spaceKey(s kv.Space, id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(s)}, id)
}

// headKey holds the view's head: which version is served.
func headKey(id uint64) []byte { return append(spaceKey(kv.State, id), 0) }

// verifiedKey holds how the view's last comparison with its batch answer ended.
func verifiedKey(id uint64) []byte { return append(spaceKey(kv.State, id), 2) }

func versionKey(s kv.Space, id uint64, version uint32) []byte {
	return binary.BigEndian.AppendUint32(spaceKey(s, id), version)
}

func stateVersionKey(id uint64, version uint32) []byte {
	return binary.BigEndian.AppendUint32(append(spaceKey(kv.State, id), 1), version)
}

func progressKey(id uint64, version uint32) []byte { return append(stateVersionKey(id, version), 0) }

// crashesKey holds in how many crashes in a row an epoch of the version was in work: one byte.
func crashesKey(id uint64, version uint32) []byte { return append(stateVersionKey(id, version), 2) }

// besideKey holds a change that a rebuild makes beside the live ones, until the switch.
func besideKey(id uint64, version uint32, p stream.Position) []byte {
	k := binary.BigEndian.AppendUint64(besidePrefix(id, version), uint64(p.Sequence))
	return binary.BigEndian.AppendUint32(k, uint32(p.Within))
}

func besidePrefix(id uint64, version uint32) []byte { return append(stateVersionKey(id, version), 3) }

// engineKey is the prefix of the engine's own keys.
func engineKey(id uint64, version uint32) []byte { return append(stateVersionKey(id, version), 1) }

func rowsKey(id uint64, version uint32) []byte { return versionKey(kv.Rows, id, version) }

func changeKey(id uint64, p stream.Position) []byte {
	k := spaceKey(kv.Changes, id)
	k = binary.BigEndian.AppendUint64(k, uint64(p.Sequence))
	return binary.BigEndian.AppendUint32(k, uint32(p.Within))
}

// lateKey is the key of a late record by its number in its version.
func lateKey(id uint64, version uint32, number int64) []byte {
	return binary.BigEndian.AppendUint64(versionKey(kv.Late, id, version), uint64(number))
}

func errorsKey(id uint64, version uint32) []byte { return versionKey(kv.RowErrors, id, version) }

// viewSpaces are the spaces in which all keys of a view begin with its id.
var viewSpaces = []kv.Space{kv.State, kv.Rows, kv.Changes, kv.Late, kv.RowErrors, kv.Groups}

// dropVersion removes everything that belongs to one version of a view.
func dropVersion(b *kv.Batch, id uint64, version uint32) {
	b.DeletePrefix(stateVersionKey(id, version))
	for _, s := range []kv.Space{kv.Rows, kv.Late, kv.RowErrors} {
		b.DeletePrefix(versionKey(s, id, version))
	}
}
