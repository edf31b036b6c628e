package tokens

import "math"

// imageLargest is for models whose count is unknown.
func imageLargest(w, h int) int {
	return max(imageTiles(w, h), imageClaudeX(w, h), imageGemini(w, h))
}

// imageClaude follows Anthropic's documents: a token for 750 pixels, after the
// image was made to fit 1568 pixels and some 1,600 tokens.
func imageClaude(w, h int) int { return pixels(w, h, 1568, 1600) }

// imageClaudeX is the same with the larger images of the later models.
func imageClaudeX(w, h int) int { return pixels(w, h, 2576, 4784) }

func pixels(w, h int, edge, most float64) int {
	width, height := shrink(float64(w), float64(h), edge/float64(max(w, h)))
	return int(math.Ceil(min(width*height/750, most)))
}

// imageTiles follows OpenAI's documents for GPT-4o: 85 tokens and 170 for each
// tile of 512 pixels, after the image was made to fit 2048 pixels and its
// shorter side 768.
func imageTiles(w, h int) int {
	width, height := shrink(float64(w), float64(h), 2048/float64(max(w, h)))
	width, height = shrink(width, height, 768/min(width, height))
	return 85 + 170*int(math.Ceil(width/512)*math.Ceil(height/512))
}

// imageGemini follows Google's documents: 258 tokens for an image of up to 384
// pixels, and for each tile of 768 pixels of a larger one.
func imageGemini(w, h int) int {
	if w <= 384 && h <= 384 {
		return 258
	}
	return 258 * int(math.Ceil(float64(w)/768)*math.Ceil(float64(h)/768))
}

func shrink(w, h, by float64) (float64, float64) {
	by = min(by, 1)
	return w * by, h * by
}
