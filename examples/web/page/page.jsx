// A chat over Convolog with useChat of the AI SDK. Reload the page in the middle of an
// answer, or kill the server and start it again: the page shows what the store holds.
import { useState } from 'react'
import { createRoot } from 'react-dom/client'
import { useChat } from '@ai-sdk/react'
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai'

const api = '/api/chat'
const token = keep('token', new URLSearchParams(location.hash.slice(1)).get('token'))
const id = keep('chat', sessionStorage.getItem('chat') ?? crypto.randomUUID())
const headers = { Authorization: `Bearer ${token}` }
history.replaceState(null, '', location.pathname) // the key leaves the address bar

function keep(name, value) {
  if (value) sessionStorage.setItem(name, value)
  return sessionStorage.getItem(name)
}

const transport = new DefaultChatTransport({
  api,
  headers,
  // The store has the history, so the page sends one message: the approved answer, or the last.
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
    body: { id, messages: [messages.find(m => m.id === messageId) ?? messages.at(-1)], trigger, messageId },
  }),
})

function Part({ part, decide }) {
  switch (true) {
    case part.type === 'text': return <>{part.text}</>
    case part.type === 'reasoning': return <small>{part.text}</small>
    case part.type === 'file': return part.mediaType.startsWith('image/') ? <img src={part.url} alt="" /> : <a href={/^(https?|data):/.test(part.url) ? part.url : undefined}>{part.mediaType}</a>
    case part.type.startsWith('tool-'): return <small>
      {part.type.slice(5)} {JSON.stringify(part.input)}: {part.state} {part.errorText ?? JSON.stringify(part.output)}
      {part.state === 'approval-requested' && <>
        <button onClick={() => decide(part, true)}>Allow</button> <button onClick={() => decide(part, false)}>Refuse</button>
      </>}
    </small>
    default: return null
  }
}

function Chat({ messages: stored }) {
  const [text, setText] = useState('')
  const { messages, sendMessage, regenerate, stop, status, error, addToolApprovalResponse } = useChat({
    id, transport, messages: stored, resume: true, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  })
  const busy = status === 'submitted' || status === 'streaming'
  const held = messages.some(m => m.parts.some(p => p.state === 'approval-requested'))
  const decide = (part, approved) => addToolApprovalResponse({ id: part.approval.id, approved })
  // stop only leaves the stream; this request ends the answer. Before the stream starts, the text may not be stored.
  const end = async () => {
    stop()
    await fetch(`${api}/${id}/stream`, { method: 'DELETE', headers })
    if (held) location.reload() // no stream is open that could end the request
  }
  return <>
    {messages.map(m => <article key={m.id} className={m.role}>{m.parts.map((p, i) => <Part key={i} part={p} decide={decide} />)}</article>)}
    {error && <p role="alert">{error.message}</p>}
    <form onSubmit={e => { e.preventDefault(); if (text) sendMessage({ text }); setText('') }}>
      <input value={text} onChange={e => setText(e.target.value)} placeholder="Say something, or: time" disabled={held} autoFocus />
      {busy || held ? <button type="button" onClick={end} disabled={status === 'submitted'}>Stop</button> : <button>Send</button>}
      {!busy && !held && messages.length > 0 && <button type="button" onClick={() => regenerate()}>Again</button>}
    </form>
  </>
}

const stored = await fetch(`${api}/${id}`, { headers })
createRoot(document.getElementById('root')).render(<Chat messages={stored.ok ? await stored.json() : []} />)
