/** Reads a stream of server-sent events. */

export type ServerEvent = { readonly id?: string; readonly type: string; readonly data: string }

/** Reads a text/event-stream body into events; skips comments and heartbeats. */
export async function* readServerEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true })
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const event = parseEvent(rest.slice(0, end))
      rest = rest.slice(end + 2)
      if (event) yield event
    }
  }
}

function parseEvent(block: string): ServerEvent | undefined {
  let id: string | undefined
  let type = 'message'
  const data: string[] = []
  for (const line of block.split(/\r?\n/)) {
    if (line === '' || line.startsWith(':')) continue
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'id') id = value
    else if (field === 'event') type = value
    else if (field === 'data') data.push(value)
  }
  if (id === undefined && data.length === 0) return undefined
  return { ...(id === undefined ? {} : { id }), type, data: data.join('\n') }
}
