/** A cheap HTTP client in a process of its own: each line of input is one closed loop over keep-alive connections. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { runLoop } from './closed-loop.ts'

type Asked = {
  readonly port: number
  readonly path: string
  readonly key: string
  readonly body: string
  readonly connections: number
  readonly forMs: number
  readonly warmUpMs: number
}
type HttpSample = { readonly perSecond: number; readonly p50Ms: number; readonly p99Ms: number }
export type HttpClient = { loop(asked: Asked): Promise<HttpSample>; end(): void }

/** The main function of the other process. */
export async function serveHttpClient(): Promise<never> {
  for await (const line of createInterface({ input: process.stdin })) {
    const { port, path, key, body, connections, ...times } = JSON.parse(line) as Asked
    const request = [
      `POST ${path} HTTP/1.1`,
      `host: 127.0.0.1:${port}`,
      `authorization: Bearer ${key}`,
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      '',
      body,
    ].join('\r\n')
    const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)))
    const operation = (slot: number) => exchange(sockets[slot] as Socket, request)
    const sample = await runLoop({ ...times, inFlight: connections, postmaster: 0, operation })
    for (const socket of sockets) socket.destroy()
    console.log(JSON.stringify(sample))
  }
  process.exit(0)
}

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').setNoDelay(true).setEncoding('latin1')
  await once(socket, 'connect')
  return socket
}

/** Sends one request and waits for the whole answer, whose length its headers name. */
function exchange(socket: Socket, request: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = ''
    const read = (chunk: string) => {
      text += chunk
      const end = text.indexOf('\r\n\r\n')
      if (end === -1) return
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1])
      if (text.length < end + 4 + length) return
      socket.off('data', read)
      if (/^HTTP\/1.1 2/.test(text)) resolve()
      else reject(new Error(text))
    }
    socket.on('data', read)
    socket.write(request)
  })
}

export function openHttpClient(program: string): HttpClient {
  const child = spawn(process.execPath, [program, '--client'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async loop(asked) {
      child.stdin.write(`${JSON.stringify(asked)}\n`)
      return JSON.parse(String((await lines.next()).value)) as HttpSample
    },
    end: () => void child.stdin.end(),
  }
}
