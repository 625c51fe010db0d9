/** Writes openapi.json from the routes; with --check says whether the committed one is still true. */
import { readFile, writeFile } from 'node:fs/promises'
import { createApi, describeApi, formatApi } from '#api'
import { openDb } from '#store'
import { readFlags } from './read-flags.ts'

const { values: flags } = readFlags({ options: { check: { type: 'boolean', default: false } } })

const file = new URL('../openapi.json', import.meta.url)
const manifest = new URL('../package.json', import.meta.url)

/** The routes are only looked at: nothing here connects, and no handler runs. */
async function describe(): Promise<string> {
  const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string }
  const db = openDb({ url: 'postgres://nobody@127.0.0.1:1/nothing' })
  const silent = () => {}
  const app = createApi({
    db,
    now: () => new Date(0),
    newId: () => '',
    randomBytes: (count) => new Uint8Array(count),
    log: { info: silent, warn: silent, error: silent },
    version,
    authenticate: () => Promise.reject(new Error('nobody is asked here')),
    feed: {
      parseCursor: (text) => ({ ok: true, value: text }),
      findEnd: () => Promise.reject(new Error('nothing is followed here')),
      check: async () => ({ ok: true as const, value: undefined }),
      async *follow() {},
    },
    // The routes are only described here; no command is looked up.
    work: {
      commands: { catalog: { tasks: new Map() } } as never,
      approvals: {} as never,
      artifacts: {} as never,
      schedules: { commands: {} } as never,
      connectors: { definitions: [] } as never,
      webhooks: [],
      memory: {} as never,
    },
    schemaVersions: () => Promise.resolve({ expected: 0, actual: 0 }),
    cursorKey: new Uint8Array(32),
  })
  const document = describeApi(app, version)
  await db.close()
  return formatApi(document)
}

const text = await describe()
if (!flags.check) {
  await writeFile(file, text)
} else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
  process.stderr.write('openapi.json is not what the routes say: run `node scripts/openapi.ts` and commit it\n')
  process.exitCode = 1
}
