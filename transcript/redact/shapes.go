package redact

import (
	"strings"
	"sync"

	"github.com/convolog/convolog/internal/lazy"
)

// A shape is the form of the keys of one service.
type shape struct {
	marks string // each key contains one of these words
	re    *lazy.Regexp
}

// shapes are the keys that are recognizable by themselves. Most texts contain no mark
// and cost a search for each.
var shapes = sync.OnceValue(func() (list []shape) {
	for _, row := range [][2]string{
		{"sk-", `sk-[A-Za-z0-9_-]{16,}`}, // Anthropic, OpenAI and others
		{"sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", `[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}`}, // Stripe
		{"whsec_", `whsec_[A-Za-z0-9+/=]{24,}`},
		{"ghp_ gho_ ghu_ ghs_ ghr_", `gh[pousr]_[A-Za-z0-9]{30,}`},
		{"github_pat_", `github_pat_[A-Za-z0-9_]{22,}`},
		{"glpat- gldt- glrt- glcbt- glptt- glft- glffct- glimt- glagent- glsoat- gloas-", `gl(?:pat|dt|rt|cbt|ptt|ft|ffct|imt|agent|soat|oas)-[A-Za-z0-9_.-]{16,}`},
		{"GR1348941", `GR1348941[A-Za-z0-9_-]{20,}`}, // GitLab
		{"xox", `xox[abceoprs][-.][A-Za-z0-9-]{10,}`},
		{"xapp-", `xapp-[0-9]-[A-Za-z0-9-]{10,}`},
		{"hooks.slack.com", `hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{30,}`},
		{"/api/webhooks/", `discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{50,}`},
		{"webhook.office.com", `[a-z0-9-]+\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,}`},
		{"AKIA ASIA ABIA ACCA", `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`},
		{"ABSK", `ABSK[A-Za-z0-9+/]{100,}={0,2}`}, // Amazon Bedrock
		{"bedrock-api-key-", `bedrock-api-key-[A-Za-z0-9+/=]{20,}`},
		{"AIza", `AIza[A-Za-z0-9_-]{35}`}, // Google
		{"ya29.", `ya29\.[A-Za-z0-9_-]{20,}`},
		{"GOCSPX-", `GOCSPX-[A-Za-z0-9_-]{28}`},
		{"1//0", `1//0[A-Za-z0-9_-]{30,}`},
		{"Q~", `[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}`}, // Microsoft Entra
		{"LTAI", `LTAI[A-Za-z0-9]{16,24}\b`},                     // Alibaba
		{"hf_", `hf_[A-Za-z0-9]{30,}`},
		{"api_org_", `api_org_[A-Za-z0-9]{30,}`}, // Hugging Face
		{"r8_", `r8_[A-Za-z0-9]{36,}`},           // Replicate
		{"gsk_", `gsk_[A-Za-z0-9]{40,}`},         // Groq
		{"xai-", `xai-[A-Za-z0-9]{40,}`},
		{"pplx-", `pplx-[A-Za-z0-9]{40,}`},
		{"nvapi-", `nvapi-[A-Za-z0-9_-]{60,}`},
		{"tvly-", `tvly-[A-Za-z0-9_-]{20,}`}, // Tavily
		{"pcsk_", `pcsk_[A-Za-z0-9_]{40,}`},  // Pinecone
		{"lsv2_", `lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}`},
		{"csk-", `csk-[a-z0-9]{40,}`}, // Cerebras
		{"npm_", `npm_[A-Za-z0-9]{36}\b`},
		{"pypi-", `pypi-[A-Za-z0-9_-]{50,}`},
		{"rubygems_", `rubygems_[0-9a-f]{48}`},
		{"CLOJARS_", `CLOJARS_[a-z0-9]{60}`},
		{"oy2", `oy2[a-z0-9]{43}\b`}, // NuGet
		{"dckr_", `dckr_[po]at_[A-Za-z0-9_-]{20,}`},
		{"AKCp", `AKCp[A-Za-z0-9]{69}\b`},
		{"cmVmd", `cmVmd[A-Za-z0-9]{59}\b`}, // Artifactory
		{"SG.", `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`},
		{"xkeysib-", `xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}`}, // Brevo
		{"re_", `re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b`},       // Resend
		{"-us", `[0-9a-f]{32}-us[0-9]{1,2}\b`},               // Mailchimp
		{"SK", `SK[0-9a-f]{32}\b`},                           // Twilio
		{"doo_v1_ dop_v1_ dor_v1_", `do[opr]_v1_[0-9a-f]{64}`},
		{"dapi", `dapi[0-9a-f]{32}\b`}, // Databricks
		{"hvs. hvb. hvr.", `hv[sbr]\.[A-Za-z0-9_-]{24,}`},
		{".atlasv1.", `[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9=_-]{60,}`},
		{"glsa_", `glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}`},
		{"glc_", `glc_[A-Za-z0-9+/]{32,}={0,3}`}, // Grafana
		{"shpat_ shpca_ shppa_ shpss_", `shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}`},
		{"sq0", `sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}`},
		{"EAA", `EAA[A-Za-z0-9]{97,}`}, // Facebook
		{"shippo_", `shippo_(?:live|test)_[0-9a-fA-F]{40}`},
		{"lin_api_", `lin_api_[A-Za-z0-9]{32,}`},
		{"ntn_", `ntn_[A-Za-z0-9]{40,}`}, // Notion
		{"ATATT3", `ATATT3[A-Za-z0-9_=-]{50,}`},
		{"PMAK-", `PMAK-[0-9a-f]{24}-[0-9a-f]{34}`},
		{"figd_", `figd_[A-Za-z0-9_-]{30,}`},
		{"sntrys_ sntryu_", `sntry[su]_[A-Za-z0-9+/=_]{40,}`},
		{"dp.", `dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,}`}, // Doppler
		{"tskey-", `tskey-[a-z]+-[A-Za-z0-9-]{16,}`},                   // Tailscale
		{"sbp_", `sbp_[0-9a-f]{40}\b`},
		{"sb_secret_", `sb_secret_[A-Za-z0-9_-]{20,}`}, // Supabase
		{"vercel_blob_rw_", `vercel_blob_rw_[A-Za-z0-9_]{20,}`},
		{"pscale_", `pscale_(?:tkn|oauth|pw)_[A-Za-z0-9=._-]{32,}`},
		{"pul-", `pul-[0-9a-f]{40}\b`},
		{"pnu_", `pnu_[A-Za-z0-9]{36}\b`}, // Prefect
		{"dt0c01.", `dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}`},
		{"NRAK- NRII- NRJS-", `NR(?:AK|II|JS)-[A-Za-z0-9-]{19,}`},
		{"fo1_ fm1", `f(?:o1|m1[ar])_[A-Za-z0-9+/_-]{40,}={0,3}`},
		{"fm2_", `fm2_[A-Za-z0-9+/]{100,}={0,3}`}, // Fly
		{"HRKU-", `HRKU-[A-Za-z0-9_-]{36,}`},
		{"rnd_", `rnd_[A-Za-z0-9]{28,}`}, // Render
		{"rdme_", `rdme_[a-z0-9]{70}`},
		{"duffel_", `duffel_(?:test|live)_[A-Za-z0-9_=-]{43}`},
		{"EZAK EZTK", `EZ[AT]K[A-Za-z0-9]{54}\b`},
		{"FLWSECK", `FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?`},
		{"sha256~", `sha256~[A-Za-z0-9_-]{43}`}, // OpenShift
		{"sgp_", `sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}`},
		{"tfp_", `tfp_[A-Za-z0-9._=-]{40,}`},
		{"phx_", `phx_[A-Za-z0-9]{40,}`},
		{"ops_eyJ", `ops_eyJ[A-Za-z0-9+/]{100,}={0,3}`},
		{"A3-", `A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b`}, // 1Password
		{".eyJ", `[sp]k\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}`},                            // Mapbox
		{":AA", `[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`},                                            // Telegram
		{"AGE-SECRET-KEY-", `AGE-SECRET-KEY-1[0-9A-Z]{58}`},
		{"eyJ", `eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`}, // JSON Web Tokens
	} {
		list = append(list, shape{row[0], lazy.New(`\b(?:` + row[1] + `)`)})
	}
	return list
})

// maskShapes masks keys. A word that begins with sk- and lacks digits is a name, for
// example of a style sheet class.
func maskShapes(text string) string {
	for _, s := range shapes() {
		if hasAny(text, s.marks) {
			text = s.re.Get().ReplaceAllStringFunc(text, func(key string) string {
				if strings.HasPrefix(key, "sk-") && !hasDigit(key) {
					return key
				}
				return mask
			})
		}
	}
	return text
}
