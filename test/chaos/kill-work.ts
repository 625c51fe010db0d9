/**
 * Kills the server and a worker with -9 while commands pay through a misbehaving provider, restarts them, waits until everything
 * has ended, and compares the provider's book with the acknowledged commands.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openChance } from '#test/chance'
import { freePort, type Served, serveConcord, spawnConcord, writeProject } from '#test/concord-process'
import { startProvider } from './provider-process.ts'

export type WorkReport = {
  readonly kills: number
  readonly acknowledged: number
  readonly providerCalls: number
  /** Acknowledged and not paid. */
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  /** Paid and not requested. */
  readonly phantom: readonly string[]
  /** Not ended or not succeeded at the end of the run. */
  readonly unfinished: readonly string[]
}

type Command = { readonly command_id: string; readonly status: string }

/** Generous: a run that takes longer is a finding, not a slow machine. */
const REST_MS = 90_000

export async function killWork({
  kills,
  seed,
}: {
  readonly kills: number
  readonly seed: string
}): Promise<WorkReport> {
  const chance = openChance(seed)
  const folder = await mkdtemp(join(tmpdir(), 'concord-work-'))
  const provider = await startProvider(join(folder, 'book'), seed)
  await writeProject(folder, 'payments')
  const env = {
    CONCORD_HOME: join(folder, 'home'),
    CONCORD_PORT: await freePort(),
    CONCORD_LOG_LEVEL: 'error',
    CONCORD_RATE_LIMIT: '1000000',
    OUTSIDE_URL: provider.url,
  }
  const options = { env, cwd: folder }
  const known = new Map<string, string>()
  let server = await serveConcord(options)
  let worker = spawnConcord(['--json', 'worker'], options)
  try {
    for (let kill = 0; kill < kills; kill++) {
      const sending = submit(server, `${seed}-${kill}`, known)
      await sleep(chance.whole(700))
      if (chance.whole(2) === 0) {
        worker.child.kill('SIGKILL')
        await worker.ended
        worker = spawnConcord(['--json', 'worker'], options)
      } else {
        server.child.kill('SIGKILL')
        await server.ended
        server = await serveConcord(options)
      }
      await sending
    }
    const commands = await waitForRest(server, known)
    const { calls, paid } = await provider.book()
    const keys = new Map(commands.map(({ command_id }) => [command_id, command_id.slice('cmd_'.length)]))
    const paidFor = (hex: string) => Object.entries(paid).filter(([key]) => key.replaceAll('-', '').includes(hex))
    const isKnown = (key: string) => [...keys.values()].some((hex) => key.replaceAll('-', '').includes(hex))
    return {
      kills,
      acknowledged: known.size,
      providerCalls: calls,
      lost: [...known.values()].filter((id) => paidFor(id.slice('cmd_'.length)).length === 0),
      doubled: Object.entries(paid).flatMap(([key, times]) => (times > 1 ? [key] : [])),
      phantom: Object.keys(paid).filter((key) => !isKnown(key)),
      unfinished: commands.flatMap(({ command_id, status }) =>
        status === 'succeeded' ? [] : [`${command_id} ${status}`],
      ),
    }
  } finally {
    for (const running of [server, worker]) {
      running.child.kill('SIGTERM')
      await running.ended
    }
    provider.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}

/** Submits twenty commands at once and remembers the acknowledged ones; the others may have happened or not. */
async function submit(server: Served, round: string, known: Map<string, string>): Promise<void> {
  const key = (await readFile(server.keyFile, 'utf8')).trim()
  await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const answer = await fetch(`${server.address}/commands`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          task_name: n % 2 === 0 ? 'Pay keyed' : 'Pay queryable',
          payload: { note: `${round}-${n}` },
          idempotency_key: `${round}-${n}`,
        }),
      }).catch(() => undefined)
      if (answer?.status !== 202 && answer?.status !== 200) return
      const body = (await answer.json().catch(() => undefined)) as Command | undefined
      if (body) known.set(`${round}-${n}`, body.command_id)
    }),
  )
}

async function waitForRest(server: Served, known: ReadonlyMap<string, string>): Promise<Command[]> {
  const until = performance.now() + REST_MS
  for (;;) {
    const commands = await listAll(server)
    const open = commands.filter(
      ({ status }) => !['succeeded', 'failed', 'cancelled', 'expired', 'compensated'].includes(status),
    )
    if ((open.length === 0 && commands.length >= known.size) || performance.now() > until) return commands
    await sleep(250)
  }
}

async function listAll(server: Served): Promise<Command[]> {
  const key = (await readFile(server.keyFile, 'utf8')).trim()
  const all: Command[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = new URLSearchParams({ limit: '500', ...(cursor === undefined ? {} : { cursor }) })
    const answer = await fetch(`${server.address}/commands?${query.toString()}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const page = (await answer.json()) as { items: Command[]; next_cursor: string | null }
    all.push(...page.items)
    cursor = page.next_cursor
  }
  return all
}
