/** A process that drives one command which writes an artifact, until a planned fault ends it. Argument: a JSON object. */
import { randomBytes } from 'node:crypto'
import { openDiskStore } from '../../src/domains/artifacts/index.ts'
import { openCommands, openDrive } from '../../src/domains/commands/index.ts'
import { uuidV7Generator } from '../../src/kernel/ids.ts'
import { openDb } from '../../src/store/db.ts'
import { testArtifactTypes } from './projects/connectors.ts'
import { CONTENT_BYTES_MAX, governedBy } from './artifacts.ts'

export type ChildTask = {
  readonly url: string
  readonly folder: string
  readonly commandId: string
  readonly token: string
}

const { url, folder, commandId, token } = JSON.parse(process.argv[2] ?? '') as ChildTask
const now = () => new Date('2026-05-01T10:00:00.000Z')
const newId = uuidV7Generator(now, (count) => randomBytes(count))
const db = openDb({ url, role: 'concord_engine' })
const store = openDiskStore({ folder, newId, contentBytesMax: CONTENT_BYTES_MAX })
const commands = openCommands({
  db,
  now,
  newId,
  random: () => 0.5,
  wake: async () => {},
  sleep: (_ms, signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
  ...governedBy({ db, now, newId, types: testArtifactTypes, stores: [store] }),
})
const fence = { token, turn: `turn:command:child:${process.pid}`, attempt: 1, signal: new AbortController().signal }
const next = await openDrive(commands.deps)(commandId, fence)
process.stdout.write(`${next.t}\n`)
await commands.close()
await db.close()
