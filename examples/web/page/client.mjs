// A client without a browser, for the tests: the Chat class of useChat takes commands as
// lines of JSON, and prints a line for each change of a message and each end of a stream.
import { createInterface } from 'node:readline'
import { Chat } from '@ai-sdk/react'
import { DefaultChatTransport } from 'ai'

const chats = new Map()
const print = line => console.log(JSON.stringify(line))

function open({ url, id, token }) {
  const headers = { Authorization: `Bearer ${token}` }
  let c = chats.get(id)
  if (!c) {
    c = { at: {} }
    c.chat = new Chat({
      id,
      transport: new DefaultChatTransport({ api: url, headers, fetch: (to, init) => fetch(String(to).replace(url, c.at.url), init) }),
      onFinish: ({ isAbort, isDisconnect, isError, finishReason }) => { c.finish = { isAbort, isDisconnect, isError, finishReason } },
    })
    c.chat['~registerMessagesCallback'](() => print({ id, event: 'seen', message: c.chat.lastMessage }))
    chats.set(id, c)
  }
  c.at = { url, headers }
  return c
}

// These commands run until the end of a stream.
const streams = {
  send: (c, { text, messageId }) => c.chat.sendMessage({ text, messageId }),
  resume: c => c.chat.resumeStream(),
  again: (c, { messageId }) => c.chat.regenerate({ messageId }),
  decide: async (c, { approval, approved, reason }) => {
    await c.chat.addToolApprovalResponse({ id: approval, approved, reason })
    await c.chat.sendMessage()
  },
}

const commands = {
  cut: async c => {
    await c.chat.stop()
    await c.stream
  },
  stop: async (c, { id }) => {
    const got = await fetch(`${c.at.url}/${id}/stream`, { method: 'DELETE', headers: c.at.headers })
    if (!got.ok) throw new Error(await got.text())
  },
  load: async (c, { id }) => {
    const got = await fetch(`${c.at.url}/${id}`, { headers: c.at.headers })
    c.chat.messages = got.ok ? await got.json() : []
  },
}

async function run(c, command) {
  const err = await (streams[command.do] ?? commands[command.do])(c, command).then(() => undefined, String)
  print({ id: command.id, event: command.do, err, status: c.chat.status, error: c.chat.error?.message, finish: c.finish, messages: c.chat.messages })
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  const c = open(command)
  if (!(command.do in streams)) {
    run(c, command)
    continue
  }
  c.finish = undefined
  c.stream = run(c, command)
}
