package search_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// chatSeed is the seed of the conversations in docs/BENCHMARKS.md. It was committed
// before anything was tuned to them.
const chatSeed = 20261122

// The kinds of questions about a chat.
const (
	askDate       = "dates"
	askAmount     = "amounts"
	askName       = "names"
	askCorrection = "corrections"
	askWho        = "who said what"
)

// A chatQuestion ends a chat. The answer needs its words, letter by letter.
type chatQuestion struct {
	kind, text string
	// about are the words of the question that name its subject, for a search
	// by a model.
	about string
	words []string
}

// chat makes up a long conversation of a person with an assistant, about trips, the
// house, the family and work. Some sentences contain answers to the final
// questions; many others resemble them. The same seed gives the same chat.
type chat struct {
	*rand.Rand
	questions []chatQuestion
	used      map[string]bool
	later     []func() string // corrections to come
}

func newChat(seed uint64) *chat {
	return &chat{Rand: rand.New(rand.NewPCG(seed, 13)), used: map[string]bool{}}
}

func (c *chat) one(n int) bool { return c.IntN(n) == 0 }

func pick[T any](c *chat, list []T) T { return list[c.IntN(len(list))] }

var (
	chatPeople = strings.Fields("Ana Boris Chidi Dana Emeka Farah Goran Hanna Ivo Jun Katya Leila Mateo Nadia Omar Petra Quentin Rosa Samir Tova Umar Vera Wanda Ximena Yusuf Zoe")
	chatFamily = strings.Fields("Albrecht Barros Castellan Demir Eriksen Falk Gupta Horvath Ibanez Jankovic Kowal Lindqvist Moreau Novak Okafor Petrov Quint Rossi Sato Tanaka Urban Vidal Weber Xu Yilmaz Zeman")
	chatEvents = strings.Split("wedding,birthday party,graduation,piano recital,dentist appointment,moving day,job interview,farewell dinner,marathon,exhibition opening,baptism,school play", ",")
	chatThings = strings.Split("kitchen counter,bathroom tiles,roof repair,used camera,train ticket,hotel in Lisbon,rented van,standing desk,garden fence,winter tyres,language course,boiler,dining table,violin lessons,solar panels,tent,bicycle,washing machine,carpet,ferry crossing", ",")
	chatRoles  = strings.Split("plumber,landlord,tax adviser,new neighbour,physiotherapist,choir director,electrician,swimming coach,estate agent,vet,architect,maths teacher,travel agent,caterer", ",")
	chatPlaces = strings.Split("the old mill,the town hall,the lake house,the harbour,the botanical garden,the school gym,the north tower,the winter market", ",")
	chatTopics = strings.Split("the heating,the vegetable garden,the summer trip,the accounts of the club,the back pain,the dog,the broken window,the choir,the loan,the move,the presentation,the car,the daily commute,the cooking course", ",")
	chatClaims = strings.Split("the %s should be sold,the %s is not worth it,the %s must be booked early,nobody needs the %s,the %s was a bargain,the %s will not last", ",")
	chatMonths = strings.Fields("January February March April May June July August September October November December")
	chatFill   = strings.Split("I have been thinking about %s again|it took most of the morning|there was little to be done about %s|we talked it over at breakfast|I am not sure what comes next with %s|the weather did not help|somebody will have to look at %s|that is how it has been for weeks|it went better than the last time with %s|I would rather wait until things are calmer|it costs more time than I have|perhaps a list would help with %s|the others see it differently|it can be done step by step|a second opinion on %s would do no harm|nothing is decided yet|it was a long day|I read an article about %s|it is a matter of taste|we could try it with less", "|")
)

func (c *chat) date() string { return fmt.Sprintf("%d %s", c.IntN(28)+1, pick(c, chatMonths)) }

func (c *chat) amount() string { return fmt.Sprintf("%d.%02d", c.IntN(4000)+20, c.IntN(100)) }

func (c *chat) person() string { return pick(c, chatPeople) + " " + pick(c, chatFamily) }

// free calls f until it returns a string that was not used.
func (c *chat) free(f func() string) string {
	for {
		if s := f(); !c.used[s] {
			c.used[s] = true
			return s
		}
	}
}

func (c *chat) asked(kind, text, about string, words ...string) {
	c.questions = append(c.questions, chatQuestion{kind, text, about, words})
}

// plant returns a sentence with the answer to a question.
func (c *chat) plant() string {
	switch c.IntN(5) {
	case 0:
		return c.dated(false)
	case 1:
		return c.priced(false)
	case 2:
		role := c.free(func() string { return pick(c, chatRoles) + " for " + pick(c, chatTopics) })
		name := c.free(c.person)
		c.asked(askName, pick(c, []string{"What is the " + role + " called?", "Who is the " + role + "?", "I need the name of the " + role + "."}), role, strings.Fields(name)...)
		return pick(c, []string{"The " + role + " is called " + name, "We found somebody, " + name + " will be the " + role, name + " is now the " + role})
	case 3:
		if c.one(2) {
			return c.dated(true)
		}
		return c.priced(true)
	}
	who := c.person()
	claim := c.free(func() string { return fmt.Sprintf(pick(c, chatClaims), pick(c, chatThings)+" of "+pick(c, chatPeople)) })
	c.asked(askWho, "Who said that "+claim+"?", claim, strings.Fields(who)...)
	return pick(c, []string{who + " said that " + claim, "according to " + who + ", " + claim, who + " keeps saying that " + claim})
}

// dated plants a date; corrected is set if a correction comes later.
func (c *chat) dated(corrected bool) string {
	what := c.free(func() string { return pick(c, chatEvents) + " of " + c.person() })
	day := c.date()
	ask := pick(c, []string{"When is the " + what + "?", "On which day is the " + what + "?", "What date was set for the " + what + "?"})
	if !corrected {
		c.asked(askDate, ask, what, strings.Fields(day)...)
		return fmt.Sprintf(pick(c, []string{"the %s is on %s", "the %s takes place on %s, so much is certain", "do not let me forget that the %s is on %s"}), what, day)
	}
	moved := c.date()
	c.later = append(c.later, func() string {
		c.asked(askCorrection, ask, what, strings.Fields(moved)...)
		return fmt.Sprintf(pick(c, []string{"I was wrong, the %s is on %s", "the %s was moved, now it is %s", "correction: the %s takes place on %s"}), what, moved)
	})
	return fmt.Sprintf("the %s is on %s", what, day)
}

// priced is dated, with an amount.
func (c *chat) priced(corrected bool) string {
	what := c.free(func() string { return pick(c, chatThings) + " for " + c.person() })
	price := c.free(c.amount)
	ask := pick(c, []string{"How much is the " + what + "?", "What did we pay for the " + what + "?", "What was the price of the " + what + "?"})
	if !corrected {
		c.asked(askAmount, ask, what, price)
		return fmt.Sprintf(pick(c, []string{"the %s costs %s euros", "for the %s they want %s euros", "I paid for the %s, it was %s euros"}), what, price)
	}
	better := c.free(c.amount)
	c.later = append(c.later, func() string {
		c.asked(askCorrection, ask, what, better)
		return fmt.Sprintf(pick(c, []string{"the %s will be %s euros after all", "no, the %s comes to %s euros", "they made a mistake: the %s costs %s euros"}), what, better)
	})
	return fmt.Sprintf("the %s costs %s euros", what, price)
}

// filler is a sentence without a question about it; some resemble planted ones.
func (c *chat) filler() string {
	switch c.IntN(9) {
	case 0:
		return fmt.Sprintf("%s was at %s on %s", c.person(), pick(c, chatPlaces), c.date())
	case 1:
		return fmt.Sprintf("a %s can cost %s euros elsewhere", pick(c, chatThings), c.amount())
	case 2:
		return fmt.Sprintf("%s asked about the %s", pick(c, chatPeople), pick(c, chatEvents))
	}
	s := pick(c, chatFill)
	if strings.Contains(s, "%s") {
		s = fmt.Sprintf(s, pick(c, chatTopics))
	}
	return s
}

// say joins sentences, the planted ones among them.
func (c *chat) say(sentences int, planted ...string) string {
	all := planted
	for range sentences {
		all = append(all, c.filler())
	}
	c.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, s := range all {
		all[i] = strings.ToUpper(s[:1]) + s[1:] + "."
	}
	return strings.Join(all, " ")
}

// turn returns the texts of the user and the assistant.
func (c *chat) turn() (user, assistant string) {
	var mine, its []string
	if c.one(3) {
		if c.one(3) {
			its = append(its, c.plant()) // found by the assistant
		} else {
			mine = append(mine, c.plant())
		}
	}
	if len(c.later) > 0 && c.one(8) {
		mine = append(mine, c.later[0]())
		c.later = c.later[1:]
	}
	return c.say(2+c.IntN(6), mine...) + " What do you think?", c.say(6+c.IntN(18), its...)
}
