/** Opens the database, embedded or given, and returns its address only if commits are durable. */
import { accept, type Decision } from '#kernel/refusal'
import { type EmbeddedPostgres, isAlive, openCheckedDb, openEmbeddedPostgres, parseDatabaseUrl } from '#store'
import type { Config } from './config.ts'
import type { Log } from './log.ts'

type OpenedStore = {
  /** Contains the password. Only for pools, never for messages. */
  readonly url: string
  /** Without the password, for messages. */
  readonly label: string
  close(): Promise<void>
}

const LOOK_MS = 1_000

export async function openStore(config: Config, log: Log): Promise<Decision<OpenedStore>> {
  const rules = { unsafeForTests: config.unsafeTest === '1' }
  if (config.databaseUrl !== undefined) return openGiven(config.databaseUrl, rules)
  const open = (mustExist: boolean) =>
    openEmbeddedPostgres({ home: config.home, mustExist, ...rules, log: (message, facts) => log.debug(facts, message) })
  const embedded = await open(false)
  if (!embedded.ok) return embedded
  const { url, version, isAttached, port } = embedded.value
  const release = `${Math.floor(version / 10_000)}.${version % 10_000}`
  const keeper = keepRunning(embedded.value, () => open(true), log)
  return accept({
    url,
    label: `embedded Postgres ${release} on 127.0.0.1:${port}${isAttached ? ' (was running)' : ''}`,
    close: () => keeper.close(),
  })
}

/** Restarts the embedded server if it was killed, on the same port and with the same password, so that the pools reconnect. */
function keepRunning(first: EmbeddedPostgres, open: () => Promise<Decision<EmbeddedPostgres>>, log: Log) {
  const handles = [first]
  let looking: Promise<void> | undefined
  async function look(): Promise<void> {
    const current = handles.at(-1) ?? first
    if (await isAlive(current.pid)) return
    const again = await open()
    if (!again.ok) return log.error({ code: again.code }, `Postgres ended and does not restart: ${again.reason}`)
    handles.push(again.value)
    log.warn({ pid: again.value.pid }, 'Postgres ended and was restarted')
  }
  const timer = setInterval(() => {
    looking ??= look()
      .catch((error: unknown) => log.error({ err: error }, 'could not check Postgres'))
      .finally(() => {
        looking = undefined
      })
  }, LOOK_MS).unref()
  return {
    async close() {
      clearInterval(timer)
      await looking
      for (const handle of handles) {
        const stopped = await handle.stop()
        if (!stopped.ok) log.warn({ code: stopped.code }, stopped.reason)
      }
    },
  }
}

async function openGiven(given: string, rules: { unsafeForTests: boolean }): Promise<Decision<OpenedStore>> {
  const address = parseDatabaseUrl(given)
  if (!address.ok) return address
  const checked = await openCheckedDb({ url: address.value.url, poolMax: 1, applicationName: 'concord check' }, rules)
  if (!checked.ok) return checked
  await checked.value.close()
  return accept({ url: address.value.url, label: address.value.masked, close: async () => {} })
}
