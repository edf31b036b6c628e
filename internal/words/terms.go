package words

// Terms returns the words of a text, folded, each as often as it occurs: words and
// numbers as they stand between spaces and signs, and pairs of neighbours of scripts
// that put no spaces between words.
func Terms(text string) (list []string) {
	for _, piece := range split(text) {
		if !isRun(piece) {
			list = append(list, string(Fold(nil, piece)))
			continue
		}
		for _, pair := range pairs(piece) {
			list = append(list, string(Fold(nil, pair)))
		}
	}
	return list
}
