/** A real SMTP server on loopback that records its messages and misbehaves as a test says. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { SMTPServer } from 'smtp-server'

export type MailMode = 'honest' | 'slow' | 'hang' | 'refuse_recipient' | 'busy' | 'cut' | 'echo' | 'garbage' | 'flood'

export type MisbehavingMail = {
  readonly port: number
  mode: MailMode
  /** Whole messages as received. */
  readonly taken: string[]
  readonly left: () => number
  close(): Promise<void>
}

export async function openMisbehavingMail(login: {
  readonly user: string
  readonly pass: string
}): Promise<MisbehavingMail> {
  const mail = { mode: 'honest' as MailMode, taken: [] as string[] }
  let left = 0
  const raw = new Set<Socket>()
  const seen: string[] = []
  const smtp = new SMTPServer({
    authOptional: false,
    allowInsecureAuth: true,
    disabledCommands: ['STARTTLS'],
    onAuth({ username, password }, _session, done) {
      seen.push(`${username}:${password}`)
      if (username === login.user && password === login.pass) return done(null, { user: username })
      return done(new Error('who are you'))
    },
    onRcptTo(_address, _session, done) {
      if (mail.mode === 'echo') return done(Object.assign(new Error(`no, ${seen.join()}`), { responseCode: 550 }))
      if (mail.mode === 'refuse_recipient') return done(Object.assign(new Error('unknown'), { responseCode: 550 }))
      return done()
    },
    onData(stream, _session, done) {
      let text = ''
      stream.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
      stream.on('end', () => {
        if (mail.mode === 'busy') return done(Object.assign(new Error('later'), { responseCode: 451 }))
        mail.taken.push(text)
        if (mail.mode === 'slow') return void setTimeout(() => done(), 2_000)
        if (mail.mode === 'hang') return undefined
        if (mail.mode === 'cut') {
          for (const socket of raw) socket.destroy()
          return undefined
        }
        return done()
      })
    },
  })
  smtp.on('error', () => {})
  const inner = await listen(smtp.server)
  // A proxy before the server, which can also send bytes that are not SMTP.
  const door = createServer((socket) => {
    raw.add(socket)
    socket
      .on('error', () => {})
      .on('close', () => {
        raw.delete(socket)
        if (mail.mode === 'hang') left += 1
      })
    if (mail.mode === 'garbage') return void socket.end('HTTP/1.1 400 Bad Request\r\n\r\nno\r\n')
    if (mail.mode === 'flood') {
      const more = () => {
        if (!socket.destroyed) socket.write('x'.repeat(65_536), () => setImmediate(more))
      }
      return more()
    }
    const behind = connect(inner, '127.0.0.1')
    behind.on('error', () => socket.destroy()).on('close', () => socket.destroy())
    socket.on('close', () => behind.destroy())
    socket.pipe(behind).pipe(socket)
    return undefined
  })
  const port = await listen(door)
  return Object.assign(mail, {
    port,
    left: () => left,
    async close() {
      for (const socket of raw) socket.destroy()
      await new Promise<void>((done) => door.close(() => done()))
      await new Promise<void>((done) => smtp.close(() => done()))
    },
  })
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return (server.address() as AddressInfo).port
}
