/**
 * A process that opens an embedded server, for tests that kill it, start two at once, or run it as another user. `node embedded-
 * child.ts '<EmbeddedOptions as JSON>'` prints the result as one line of JSON; the line `stop` on its input stops it.
 */
import { createInterface } from 'node:readline'
import { openEmbeddedPostgres } from '../../src/store/embedded/server.ts'

const opened = await openEmbeddedPostgres(JSON.parse(process.argv[2] ?? '{}'))
console.log(JSON.stringify(opened))
if (!opened.ok) process.exit(1)

for await (const line of createInterface({ input: process.stdin })) {
  if (line !== 'stop') continue
  console.log(JSON.stringify(await opened.value.stop()))
  process.exit(0)
}
