/** Concord inside the servers that people write: mounted in Hono, behind Node's own server, and as a handler of a route. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { allow, defineCommand, defineEffect, openConcord } from '@concordhq/concord'
import { connect } from '@concordhq/concord/client'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { z } from 'zod'

/** A service of the program. Effects may use everything that the program has. */
const mailer = { send: (to: string) => Promise.resolve({ message: `mail to ${to}` }) }

const welcome = defineEffect('mail.welcome', {
  input: z.object({ to: z.string() }),
  class: 'keyed',
  do: ({ input }) => mailer.send(input.to),
})
export const greet = defineCommand('greet', {
  input: welcome.input,
  key: 'greet:{to}',
  policy: () => allow(),
  steps: (input) => [welcome(input)],
})

const home = await mkdtemp(join(tmpdir(), 'concord-embed-'))
const concord = await openConcord({ project: { catalog: [greet] }, home })
const key = (await readFile(join(home, 'admin.key'), 'utf8')).trim()
try {
  const inside = await concord.wait(await concord.submit(greet, { to: 'ada' }))
  console.log(`in the program: ${inside.result?.message}`)

  const app = new Hono().get('/', (context) => context.text('my own page')).mount('/concord', concord.fetch)
  const viaHono = connect({ url: 'http://127.0.0.1/concord', key, fetch: async (request) => app.fetch(request) })
  const second = await viaHono.wait(await viaHono.submit(greet, { to: 'bob' }))
  console.log(`mounted in Hono: ${second.result?.message}`)

  const listener = getRequestListener(concord.fetch)
  const server = createServer((request, response) => void listener(request, response)).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const client = connect({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, key })
  const third = await client.wait(await client.submit(greet, { to: 'cleo' }))
  console.log(`behind a server of Node: ${third.result?.message}`)
  server.close()

  const route = (request: Request) => concord.fetch(new Request(request.url.replace('/api/concord', ''), request))
  const viaRoute = connect({ url: 'http://127.0.0.1/api/concord', key, fetch: route })
  const fourth = await viaRoute.wait(await viaRoute.submit(greet, { to: 'ada' }))
  console.log(`in a route, the same request again: ${fourth.command_id === inside.command_id}`)
} finally {
  await concord.close()
  await rm(home, { recursive: true, force: true })
}
