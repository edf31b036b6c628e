#!/usr/bin/env bash
# Makes the files of Codex, Gemini CLI and opencode beside it with the programs
# themselves, from npm, and a stand-in for their model. IDs and times differ each time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
to=$PWD
here=$(mktemp -d)
trap 'kill "$model" 2>/dev/null || true; rm -rf "$here"' EXIT
export HERE=$here HOME=$here STUB_KEY=x GEMINI_API_KEY=x CODEX_HOME=$here/.codex
export XDG_DATA_HOME=$here/.local XDG_CONFIG_HOME=$here/.config XDG_STATE_HOME=$here/.state XDG_CACHE_HOME=$here/.cache
export OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1

npm install --prefix "$here/npm" --ignore-scripts --no-audit --no-fund \
	@openai/codex@0.171.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33 >&2
bin=$here/npm/node_modules
opencode=$bin/opencode-linux-x64/bin/opencode

node model.mjs >"$here/port" &
model=$!
until [[ -s $here/port ]]; do sleep 0.1; done
url=http://127.0.0.1:$(<"$here/port")

mkdir -p "$here/quay" "$CODEX_HOME" "$here/.gemini"
touch "$here/quay/dinghy" "$here/quay/ketch"
cd "$here/quay"
cat >"$CODEX_HOME/config.toml" <<TOML
model = "gpt-stub"
model_provider = "stub"
approval_policy = "never"
[model_providers.stub]
name = "stub"
base_url = "$url/v1"
wire_api = "responses"
env_key = "STUB_KEY"
TOML
cat >"$here/.gemini/settings.json" <<JSON
{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true}}
JSON
cat >opencode.json <<JSON
{"autoupdate": false, "share": "disabled", "model": "stub/boat-1", "small_model": "stub/boat-1",
 "provider": {"stub": {"npm": "@ai-sdk/openai-compatible", "name": "Stub", "options": {"baseURL": "$url/v1", "apiKey": "x"},
  "models": {"boat-1": {"name": "Boat", "tool_call": true, "limit": {"context": 100000, "output": 8000}}}}}}
JSON

# The second turn of Codex begins with a compaction, as the first has reached the limit.
codex=("$bin/.bin/codex" exec --skip-git-repo-check --sandbox danger-full-access)
"${codex[@]}" "How many boats are here?" </dev/null >&2
"${codex[@]}" -c model_auto_compact_token_limit=500 resume --last "What is a ketch?" </dev/null >&2
gemini=("$bin/.bin/gemini" --skip-trust -m gemini-2.5-flash -y)
GOOGLE_GEMINI_BASE_URL=$url "${gemini[@]}" -p "How many boats are here?" </dev/null >&2
"$opencode" run "How many boats are here?" </dev/null >&2
"$opencode" run --continue "What is a ketch?" </dev/null >&2
id=$("$opencode" session list --format json </dev/null | grep -o 'ses_[A-Za-z0-9]*' | head -n 1)
"$opencode" export "$id" </dev/null >"$here/session.json"

cd "$to"
rm -rf codex gemini-cli opencode
mkdir -p codex/sessions gemini-cli/chats opencode
node tidy.mjs "$(find "$CODEX_HOME/sessions" -name 'rollout-*.jsonl')" >codex/sessions/rollout-observed.jsonl
node tidy.mjs "$(find "$here/.gemini/tmp" -name 'session-*.jsonl')" >gemini-cli/chats/session-observed.jsonl
node tidy.mjs "$here/session.json" >opencode/session.json
