package search_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// tenSeed is the seed of the conversations of TestTenKinds. It was committed before
// anything was measured with them.
const tenSeed = 27182

// A probe is a question at the end of a conversation, with words that its answer
// needs, letter by letter.
type probe struct {
	kind, text string
	words      []string
}

// A longTalk is a conversation and the questions about it.
type longTalk struct {
	messages []transcript.Message
	probes   []probe
}

// tenKinds makes up a conversation with a user who restores a boat, runs a bakery and
// writes about lichens. Its questions are of BEAM's ten kinds. The same seed gives
// the same conversation.
type tenKinds struct {
	*rand.Rand
	said, answered [][]string // planted sentences of each turn
	used           map[string]bool
	probes         []probe
}

// tenTurns is how many turns a conversation has, about 100,000 tokens.
const tenTurns = 150

// ofEach is how many questions of each kind a conversation has.
const ofEach = 4

var (
	tenTraits  = strings.Fields("brass copper folding galvanised hollow laminated painted portable riveted rubber sealed spare striped tapered threaded varnished welded woven zinc ceramic")
	tenParts   = strings.Fields("bracket cleat coupling flange gasket grille hatch impeller keelson lanyard mallet nozzle oarlock pulley rudder shackle tiller trowel turnbuckle valve windlass yoke sieve crock peel paddle")
	tenMakers  = strings.Fields("Aasen Bellamy Cormoran Duquesne Eszterhazy Fjelstad Grimaldi Halvorsen Iturbe Jagiello Kestrel Lomonosov Mankell Nazarian Oyelaran Pemberton Quiroga Rautavaara Szymborska Thorvald Ugarte Vasarely Wojnarski Xanthos Ybarra Zoltan")
	tenTowns   = strings.Fields("Alesund Bristol Coimbra Dundee Esbjerg Fremantle Gdansk Hobart Inverness Jyvaskyla Kotor Lerwick Matosinhos Narvik Oban Piran Quimper Rostock Skagen Trieste Umea Viborg Whitby Zadar")
	tenMonths  = strings.Fields("January February March April May June July August September October November December")
	tenTopics  = strings.Split("the hull below the waterline|the sourdough for the weekend|the chapter about crustose lichens|the wiring of the cabin|the lease of the shop|the herbarium in the attic|the sails and their seams|the oven and its thermostat|the survey of the churchyard|the insurance of the mooring|the flour from the mill|the microscope slides", "|")
	tenAsks    = strings.Split("How would you go about %s?|Could you draw up a plan for %s?|What am I overlooking with %s?|Please compare two ways to deal with %s.|Can you explain the risks of %s to a beginner?|Where would you save money on %s?|Give me a checklist for %s.|What would an expert say about %s?", "|")
	tenMusings = strings.Split("I spent the evening with %s and made little headway.|My brother thinks that I worry too much about %s.|We had rain for three days, so nothing was done about %s.|It turns out that %s takes longer than the books claim.|I have read two articles on %s since we spoke.|There is a smell of resin everywhere because of %s.|A neighbour offered to help with %s.|I would like to be finished with %s before the days get shorter.|The last attempt at %s was a disappointment.|I took photographs of %s for my notebook.", "|")
	tenAdvice  = strings.Split("Begin with an inspection of %s in daylight and write down every defect that you can see.|Set aside twice the time for %s that seems reasonable at first.|With %s it pays to work from the inside to the outside.|Keep a small reserve for surprises, since %s rarely goes as planned.|A rough sketch of %s makes it easier to talk to tradespeople.|If %s has to wait, cover it and let air pass underneath.|Ask two people who have done it before, and compare how they describe %s.|Do the dull part of %s first, because it decides about everything that follows.|Measure twice, note the humidity, and only then return to %s.|There is no harm in leaving %s alone for a week.|Many beginners spend too much on %s and too little on their tools.|Once %s is under control, the remaining steps are mostly a matter of patience.|Write a short summary of %s at the end of each day.|The usual mistake with %s is to hurry at the very end.", "|")
	tenWords   = strings.Fields("alder barley cinder damper ember fescue gravel heather ivory juniper kelp linen marl nettle ochre pitch quartz rosin sorrel tallow umber vellum willow yarrow basalt clover dapple elder flint gorse hazel indigo jute lime mica nickel oxide pewter reed slate teak")
)

// Instructions, preferences: the topic of the question, the user's text, and words of
// it that an answer needs.
var (
	tenOrders = [][]string{
		{"What do I need for a loaf with caraway?", "Whenever you give me a recipe, state the hydration in baker's percentages.", "hydration percentages"},
		{"Which lichen grows on old headstones?", "Each time that you mention a species, add its binomial in brackets.", "species binomial"},
		{"How far is it to the next lock?", "Distances on water belong in cables, with fathoms for depths, if you tell me any.", "cables fathoms"},
		{"Can you order the jobs for Saturday?", "A list of jobs is only good for me with an estimate in quarter hours after each job.", "estimate quarter"},
		{"What should I paint first?", "Always name the solvent and the curing interval when we talk about coatings.", "solvent curing"},
		{"What did the mill charge us?", "Sums are to be rounded to crowns, and never show me decimals.", "crowns decimals"},
		{"Please write to the landlord.", "Letters in my name end with Sincerely yours and my middle initial.", "Sincerely initial"},
		{"Explain the thermostat again.", "For anything electrical, begin with a warning about the isolator.", "electrical isolator"},
	}
	tenTastes = [][]string{
		{"Which glue would suit me?", "I like casein better than epoxy, since the fumes give me headaches.", "casein fumes"},
		{"Suggest a lunch for the crew.", "Most of us have gone off mackerel, and a lentil stew is what everybody asks for.", "mackerel lentil"},
		{"What should I read on the ferry?", "Give me travelogues over thrillers any day.", "travelogues thrillers"},
		{"How should I light the workshop?", "Fluorescent tubes make me dizzy, so lanterns with a warm filament it is.", "Fluorescent filament"},
		{"What could I give the apprentice?", "Handmade presents mean more to me than vouchers.", "Handmade vouchers"},
		{"Which reference style do I use?", "I have settled on footnotes, as parentheses interrupt the prose.", "footnotes parentheses"},
		{"Find me a route for Sunday.", "Gravel tracks please me more than tarmac, even if they are slower.", "tracks tarmac"},
		{"What music goes with kneading?", "A concertina cheers me up; brass bands do not.", "concertina bands"},
	}
	tenNever = [][]string{
		{"Have I ever sailed at night?", "I have never sailed after dusk, my eyesight is too poor for it.", "Coming back past the lighthouse at two in the morning under sail was magical.", "eyesight lighthouse"},
		{"Do I own a kiln?", "There is no kiln here, and the landlord would forbid it.", "I fired up my kiln on Tuesday and cracked three tiles.", "forbid tiles"},
		{"Did I take a course on mycology?", "Nobody ever taught me mycology, I am an autodidact.", "The seminar on mycology that I attended in Uppsala was worth the fee.", "autodidact Uppsala"},
		{"Have I employed anybody?", "I run the shop alone and pay no wages.", "Our journeyman asked for a raise, his contract says so.", "wages journeyman"},
	}
	tenLate = strings.Split("What does my godmother do for a living?|Which school did the apprentice attend?|What is the registration of the tractor?|How did the vote in the parish council go?", "|")
)

func newTenKinds(seed uint64) longTalk {
	t := &tenKinds{
		Rand: rand.New(rand.NewPCG(seed, 10)), used: map[string]bool{},
		said: make([][]string, tenTurns), answered: make([][]string, tenTurns),
	}
	for i := range ofEach {
		t.extraction()
		t.update()
		t.contradiction(i)
		t.ordering()
		t.told("instruction following", tenOrders[i*2+t.IntN(2)])
		t.told("preference following", tenTastes[i*2+t.IntN(2)])
		t.reasoning()
		t.temporal()
		t.summary()
		t.probes = append(t.probes, probe{kind: "abstention", text: tenLate[i]})
	}
	return t.talk()
}

func (t *tenKinds) one(list []string) string { return list[t.IntN(len(list))] }

// fresh calls f until it returns a string that was not used before.
func (t *tenKinds) fresh(f func() string) string {
	for {
		if s := f(); !t.used[s] {
			t.used[s] = true
			return s
		}
	}
}

func (t *tenKinds) part() string {
	return t.fresh(func() string { return t.one(tenTraits) + " " + t.one(tenParts) })
}

func (t *tenKinds) number() string {
	return t.fresh(func() string { return fmt.Sprint(t.IntN(8_000) + 300) })
}

func (t *tenKinds) date() string {
	return t.fresh(func() string { return fmt.Sprintf("%d %s", t.IntN(28)+1, t.one(tenMonths)) })
}

// turns returns n turns in order, distant from each other.
func (t *tenKinds) turns(n int) (list []int) {
	for i := range n {
		list = append(list, i*tenTurns/n+t.IntN(tenTurns/n))
	}
	return list
}

func (t *tenKinds) say(turn int, text string) { t.said[turn] = append(t.said[turn], text) }

func (t *tenKinds) ask(kind, text string, words ...string) {
	t.probes = append(t.probes, probe{kind, text, words})
}

// extraction plants a fact. The assistant states one of six.
func (t *tenKinds) extraction() {
	part, maker, town := t.part(), t.one(tenMakers), t.one(tenTowns)
	code := fmt.Sprintf("%c%c-%s", 'A'+rune(t.IntN(26)), 'A'+rune(t.IntN(26)), t.number())
	text := fmt.Sprintf(t.one([]string{"The %s was made by %s in %s, its number is %s.", "For the %s I wrote to %s of %s, under the reference %s.", "We found a %s at the yard of %s in %s, stamped %s."}), part, maker, town, code)
	if t.IntN(6) == 0 {
		turn := t.IntN(tenTurns)
		t.answered[turn] = append(t.answered[turn], text)
	} else {
		t.say(t.IntN(tenTurns), text)
	}
	t.ask("information extraction", "Who made the "+part+", and what is its reference?", maker, town, code)
}

// update plants a figure that changes twice.
func (t *tenKinds) update() {
	part, value := t.part(), ""
	for i, turn := range t.turns(3) {
		value = t.number()
		text := "The offer for the %s stands at %s crowns."
		if i > 0 {
			text = t.one([]string{"They have changed the offer for the %s to %s crowns.", "As for the %s, the offer is %s crowns since this morning.", "Forget the old offer for the %s, it is %s crowns."})
		}
		t.say(turn, fmt.Sprintf(text, part, value))
	}
	t.ask("knowledge update", "What is the offer for the "+part+"?", value)
}

func (t *tenKinds) contradiction(i int) {
	c := tenNever[i]
	for k, turn := range t.turns(2) {
		t.say(turn, c[1+k])
	}
	t.ask("contradiction resolution", c[0], strings.Fields(c[3])...)
}

// ordering plants steps of one job, in different turns.
func (t *tenKinds) ordering() {
	part := t.part()
	var steps []string
	for i, turn := range t.turns(4) {
		step := t.fresh(func() string { return t.one(tenWords) + t.one([]string{" wash", " bath", " polish", " filler"}) })
		steps = append(steps, step)
		t.say(turn, fmt.Sprintf([]string{"I began with the %s and a %s.", "Today the %s got a %s.", "Next came, for the %s, a %s.", "To finish the %s I used a %s."}[i], part, step))
	}
	t.ask("event ordering", "In which order did I treat the "+part+"?", steps...)
}

func (t *tenKinds) told(kind string, o []string) {
	t.say(t.IntN(tenTurns), o[1])
	t.ask(kind, o[0], strings.Fields(o[2])...)
}

// reasoning plants figures that an answer adds up.
func (t *tenKinds) reasoning() {
	part := t.part()
	var all []string
	for _, turn := range t.turns(3) {
		n := t.number()
		all = append(all, n)
		t.say(turn, fmt.Sprintf(t.one([]string{"Another %s grams of solder went into the %s.", "I needed %s grams of solder for the %s.", "That makes %s grams of solder more for the %s."}), n, part))
	}
	t.ask("multi-session reasoning", "How much solder did the "+part+" take altogether?", all...)
}

// temporal plants two dates.
func (t *tenKinds) temporal() {
	part := t.part()
	from, to := t.date(), t.date()
	at := t.turns(2)
	t.say(at[0], fmt.Sprintf("On %s I sent the %s away for repair.", from, part))
	t.say(at[1], fmt.Sprintf("The %s came back on %s, at last.", part, to))
	t.ask("temporal reasoning", "How many days was the "+part+" away for repair?", from, to)
}

// summary plants a story in five turns.
func (t *tenKinds) summary() {
	part := t.part()
	words := []string{t.one(tenMakers), t.one(tenTowns), t.fresh(func() string { return t.one(tenWords) }), t.fresh(func() string { return t.one(tenWords) }), t.number()}
	for i, turn := range t.turns(5) {
		t.say(turn, fmt.Sprintf([]string{
			"%s wants to buy the %s from me.", "A letter from %s arrived about the %s.", "There is a stain of %s on the %s.",
			"We agreed to rub %s into the %s.", "In the end %s crowns changed hands for the %s.",
		}[i], words[i], part))
	}
	t.ask("summarization", "Sum up what happened with the sale of the "+part+".", words...)
}

// paste is a list or a log, each line of which is rare.
func (t *tenKinds) paste() string {
	var lines []string
	for i := range 12 + t.IntN(30) {
		lines = append(lines, fmt.Sprintf("%02d  %s/%s  %d.%d  %s", i, t.one(tenWords), t.one(tenWords), t.IntN(90), t.IntN(10), t.one(tenTraits)))
	}
	return "Here are my notes:\n" + strings.Join(lines, "\n")
}

func (t *tenKinds) about(list []string) string {
	return fmt.Sprintf(t.one(list), t.one(tenTopics))
}

func (t *tenKinds) several(n int, list, planted []string) string {
	all := append([]string{}, planted...)
	for range n {
		all = append(all, t.about(list))
	}
	t.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all, " ")
}

// talk writes the texts: a fifth of all tokens is the user's.
func (t *tenKinds) talk() (all longTalk) {
	for i := range tenTurns {
		user := t.several(3+t.IntN(6), tenMusings, t.said[i]) + " " + t.about(tenAsks)
		if t.IntN(12) == 0 {
			user += "\n\n" + t.paste()
		}
		var parts []string
		for k := range 3 + t.IntN(3) {
			planted := t.answered[i]
			if k > 0 {
				planted = nil
			}
			parts = append(parts, fmt.Sprintf("%d. %s", k+1, t.several(5+t.IntN(5), tenAdvice, planted)))
		}
		all.messages = append(all.messages, transcript.UserText(user), transcript.AssistantText(strings.Join(parts, "\n\n")))
	}
	all.probes = t.probes
	return all
}
