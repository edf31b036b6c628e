package filelog

// The bytes that locks are put on: far past any data, so that a lock that keeps
// out reads, as those of Windows do, keeps out none.
const (
	appendByte int64 = 1 << 62
	turnByte   int64 = 1<<62 + 1
	syncByte   int64 = 1<<62 + 2
)
