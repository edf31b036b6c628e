// A stand-in for the model of three programs. It answers a question about boats with a
// call of a tool, and the result of that call, and every other question, with a text. It
// listens on the loopback address and prints its port.
import {createServer} from 'node:http'

const answers = {
  // The Responses API, for Codex.
  responses(body) {
    const events = []
    const usage = {input_tokens: 900, input_tokens_details: {cached_tokens: 400}, output_tokens: 40, output_tokens_details: {reasoning_tokens: 10}, total_tokens: 940}
    const item = (i, item) => events.push({type: 'response.output_item.added', output_index: i, item}, {type: 'response.output_item.done', output_index: i, item})
    const last = (body.input ?? []).at(-1) ?? {}
    const answered = (last.type ?? '').endsWith('_output')
    const tool = (body.tools ?? []).map(t => t.name).find(n => /^(exec_command|shell_command|shell)$/.test(n ?? ''))
    if (tool && !answered && JSON.stringify(last).includes('How many boats')) {
      const command = 'echo dinghy; echo ketch'
      const args = tool === 'exec_command' ? {cmd: command} : tool === 'shell' ? {command: ['sh', '-c', command]} : {command}
      item(0, {type: 'reasoning', id: 'rs_1', summary: [{type: 'summary_text', text: '**Looking at the quay**'}], encrypted_content: 'sealed'})
      item(1, {type: 'function_call', id: 'fc_1', call_id: 'call_1', name: tool, arguments: JSON.stringify(args)})
    } else {
      const text = answered ? 'Two boats: a dinghy and a ketch.' : 'A ketch has two masts.'
      item(0, {type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [{type: 'output_text', text, annotations: []}]})
    }
    return [{type: 'response.created', response: {id: 'resp_1'}}, ...events, {type: 'response.completed', response: {id: 'resp_1', usage}}].map(e => `event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`)
  },
  // The Chat API, for opencode.
  chat(body) {
    const chunk = (delta, finish = null, usage) => `data: ${JSON.stringify({id: 'chat_1', object: 'chat.completion.chunk', created: 1790000000, model: body.model, choices: [{index: 0, delta, finish_reason: finish}], usage})}\n\n`
    const usage = {prompt_tokens: 900, completion_tokens: 40, total_tokens: 940, prompt_tokens_details: {cached_tokens: 400}}
    const names = (body.tools ?? []).map(t => t.function?.name)
    const last = body.messages.at(-1)
    if (names.includes('bash') && last.role === 'user' && JSON.stringify(last).includes('How many boats')) {
      const args = JSON.stringify({command: 'echo dinghy; echo ketch', description: 'Lists the boats'})
      return [chunk({role: 'assistant', content: 'I look at the quay.'}), chunk({tool_calls: [{index: 0, id: 'call_1', type: 'function', function: {name: 'bash', arguments: args}}]}), chunk({}, 'tool_calls', usage), 'data: [DONE]\n\n']
    }
    const text = !names.length ? 'Boats at the quay' : last.role === 'tool' ? 'Two boats: a dinghy and a ketch.' : 'A ketch has two masts.'
    return [chunk({role: 'assistant', content: text}), chunk({}, 'stop', usage), 'data: [DONE]\n\n']
  },
  // The Gemini API, for Gemini CLI.
  gemini(body) {
    const usageMetadata = {promptTokenCount: 900, cachedContentTokenCount: 400, candidatesTokenCount: 40, thoughtsTokenCount: 10, totalTokenCount: 950}
    const names = (body.tools ?? []).flatMap(t => t.functionDeclarations ?? []).map(f => f.name)
    const last = body.contents.at(-1)
    let parts = [{text: last.parts.some(p => p.functionResponse) ? 'Two boats: a dinghy and a ketch.' : 'A ketch has two masts.'}]
    if (names.includes('list_directory') && last.parts.some(p => p.text?.includes('How many boats'))) {
      parts = [{text: '**Looking at the quay** The folder has them.', thought: true}, {functionCall: {id: 'call_1', name: 'list_directory', args: {dir_path: '.', path: '.'}}, thoughtSignature: 'c2lnbmVk'}]
    }
    return [`data: ${JSON.stringify({candidates: [{index: 0, content: {role: 'model', parts}, finishReason: 'STOP'}], usageMetadata, modelVersion: 'gemini-stub'})}\n\n`]
  },
}

createServer((req, res) => {
  let text = ''
  req.on('data', d => text += d).on('end', () => {
    let body = {}
    try { body = JSON.parse(text) } catch {}
    const kind = req.url.includes('/responses') ? 'responses' : req.url.includes('/chat/completions') ? 'chat' : req.url.includes('enerateContent') ? 'gemini' : ''
    if (!kind || req.method !== 'POST') {
      res.writeHead(200, {'content-type': 'application/json'}).end('{"object":"list","data":[],"models":[]}')
      return
    }
    const events = answers[kind](body)
    if (kind === 'gemini' && !req.url.includes('stream')) {
      res.writeHead(200, {'content-type': 'application/json'}).end(events[0].slice(6))
      return
    }
    res.writeHead(200, {'content-type': 'text/event-stream'})
    for (const e of events) res.write(e)
    res.end()
  })
}).listen(0, '127.0.0.1', function () { console.log(this.address().port) })
