// Prints a file of one of the programs with the texts that the program itself writes to
// its model left out, and with /home/ada in place of the folder in HERE.
import {readFileSync} from 'node:fs'

const out = '(left out)'
const text = readFileSync(process.argv[2], 'utf8').replaceAll(process.env.HERE.slice(1), 'home/ada')
const tidy = v => {
  if (Array.isArray(v)) return v.map(tidy)
  if (v === null || typeof v !== 'object') return v
  if (v.role === 'developer') return {...v, content: v.content.map(c => ({...c, text: out}))}
  const entries = Object.entries(v).map(([name, m]) => [name, name === 'base_instructions' ? {text: out} : tidy(m)])
  for (const e of entries) {
    const tag = e[0] === 'text' && /^<(\w+)>/.exec(e[1])?.[1]
    if (tag) e[1] = `<${tag}>\n${out}\n</${tag}>`
  }
  return Object.fromEntries(entries)
}
if (process.argv[2].endsWith('.jsonl')) {
  for (const line of text.trimEnd().split('\n')) console.log(JSON.stringify(tidy(JSON.parse(line))))
} else {
  console.log(JSON.stringify(tidy(JSON.parse(text)), null, 2))
}
