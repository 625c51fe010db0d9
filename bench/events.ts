/**
 * The events of the same commands in two versions, compared field by field: every task of the example catalog, and random commands of the test
 * catalog with failures, questions, answers, cancels and retries. Ids and times are replaced by their order of appearance.
 *
 * node bench/events.ts --before <folder of another version> [--after <folder>] [--commands 10000] [--seed events]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { setTimeout as wait } from 'node:timers/promises'
import { openChance } from '#test/chance'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: {
    before: { type: 'string' },
    after: { type: 'string', default: path.join(import.meta.dirname, '..') },
    commands: { type: 'string', default: '10000' },
    seed: { type: 'string', default: 'events' },
    record: { type: 'string' },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
  },
})
/** Ids of both forms, and hashes of what contains one. */
const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[a-z]+_[0-9a-f]{32}\b|\b[0-9a-f]{64}\b/g
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)/g
const TRACE = 'trace_00000000000000000000000000000001'

/** One command: what it is, and its events. */
type Recorded = Readonly<Record<string, readonly Event[]>>
type Event = { readonly event_type: string; readonly [field: string]: unknown }
type Rows = (text: string, values?: readonly unknown[]) => Promise<readonly Record<string, unknown>[]>

if (options.record !== undefined) await record(options.after, options.record)
else if (options.before === undefined) console.log('Nothing to compare: give --before <folder of another version>.')
else await compare(options.before, options.after)

async function compare(before: string, after: string): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-events-'))
  const run = async (checkout: string, name: string): Promise<Recorded> => {
    const file = path.join(folder, name)
    const { commands, seed } = options
    const given = ['--record', file, '--after', checkout, '--commands', commands, '--seed', seed]
    const child = spawn(process.execPath, [import.meta.filename, ...given], {
      cwd: checkout,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    await once(child, 'exit')
    return JSON.parse(await readFile(file, 'utf8')) as Recorded
  }
  const [old, now] = [await run(before, 'before'), await run(after, 'after')]
  await rm(folder, { recursive: true })
  const kinds = new Map<string, { count: number; example: string }>()
  let same = 0
  for (const [name, events] of Object.entries(old)) {
    const found = differences(events, now[name] ?? [])
    if (found.length === 0) same += 1
    for (const [kind, example] of found) {
      const known = kinds.get(kind)
      kinds.set(kind, { count: (known?.count ?? 0) + 1, example: known?.example ?? `${name}: ${example}` })
    }
  }
  const count = Object.values(old).reduce((sum, events) => sum + events.length, 0)
  console.log(`${Object.keys(old).length} commands, ${count} events; ${same} commands have the same events.`)
  for (const [kind, { count: times, example }] of kinds) console.log(`${times} × ${kind}\n    ${example}`)
}

function differences(before: readonly Event[], after: readonly Event[]): [kind: string, example: string][] {
  const types = (events: readonly Event[]) => events.map(({ event_type }) => event_type).join(' ')
  if (types(before) !== types(after)) return [['the list of events', `\n    ${types(before)}\n    ${types(after)}`]]
  return before.flatMap((event, n) => {
    const other = flat(after[n])
    const fields = flat(event)
    return [...new Set([...Object.keys(fields), ...Object.keys(other)])]
      .filter((field) => fields[field] !== other[field])
      .map((field): [string, string] => [`${event.event_type} ${field}`, `${fields[field]} → ${other[field]}`])
  })
}

/** Every leaf of a document by its path. */
function flat(value: unknown, at = ''): Record<string, string> {
  if (typeof value !== 'object' || value === null) return { [at]: JSON.stringify(value) }
  return Object.assign({}, ...Object.entries(value).map(([name, part]) => flat(part, `${at}.${name}`)))
}

async function eventsOf(rows: Rows, ids: Readonly<Record<string, string>>): Promise<Recorded> {
  const recorded: Record<string, readonly Event[]> = {}
  for (const [name, id] of Object.entries(ids)) {
    const events = await rows(
      `select event_type, purpose, actor, trace_id, payload, created_at from concord.domain_events where command_id = $1 order by seq`,
      [id],
    )
    const seen = new Map<string, string>()
    const named = (given: string) => {
      seen.set(given, seen.get(given) ?? `<${seen.size}>`)
      return seen.get(given) ?? ''
    }
    const text = JSON.stringify(events).replace(ID, named).replace(TIME, '<time>')
    recorded[name] = JSON.parse(text) as Event[]
  }
  return recorded
}

/** Runs in a process of its own, with the modules of that version. */
async function record(root: string, file: string): Promise<void> {
  const load = <T>(module: string) => import(pathToFileURL(path.join(root, module)).href) as Promise<T>
  const recorded = { ...(await runExamples(load)), ...(await runRandom(load)) }
  await writeFile(file, JSON.stringify(recorded))
  process.exit(0)
}

type Load = <T>(module: string) => Promise<T>
type Opened = {
  readonly concord: {
    submit(command: { readonly taskName: string }, payload: object): Promise<{ readonly command_id: string }>
    close(): Promise<void>
  }
  readonly service: { readonly work: { readonly commands: { readonly db: { query: Rows } } } }
}
type Closed = { readonly url: string; close(): Promise<void> }

/** Every task, and again with each of its fields left out. Until no command moves any more. */
async function runExamples(load: Load): Promise<Recorded> {
  const { openInProcess } = await load<{ openInProcess(options: object): Promise<Opened> }>('src/app/open-concord.ts')
  const { openTestDatabase } = await load<{ openTestDatabase(): Promise<Closed> }>('src/testing/test-database.ts')
  const { startVendor } = await load<{ startVendor(settings: object): Promise<Closed> }>(
    'examples/vendor/start-vendor.ts',
  )
  const { exampleCatalog, examplePayloads } = await load<{
    exampleCatalog(options: object): readonly unknown[]
    examplePayloads: Readonly<Record<string, object>>
  }>('examples/catalog/index.ts')
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-events-'))
  const database = await openTestDatabase()
  const vendor = await startVendor({ ledger: ':memory:', seed: 1, trouble: 0 })
  const catalog = exampleCatalog({ vendorUrl: vendor.url, folder, backoffSeconds: [0.1, 0.2, 0.4] })
  const { concord, service } = await openInProcess({
    project: { catalog },
    databaseUrl: database.url,
    home: folder,
    settings: { CONCORD_UNSAFE_TEST: '1' },
  })
  const { db } = service.work.commands
  const ids: Record<string, string> = {}
  for (const [task, payload] of Object.entries(examplePayloads))
    for (const lacking of [undefined, ...Object.keys(payload)]) {
      const given = Object.fromEntries(Object.entries(payload).filter(([field]) => field !== lacking))
      const submitted = await concord.submit({ taskName: task }, given).catch(() => undefined)
      if (submitted) ids[`${task} without ${lacking ?? 'nothing'}`] = submitted.command_id.slice('cmd_'.length)
    }
  const count = async () => JSON.stringify(await db.query('select count(*) from concord.domain_events'))
  for (let before = ''; before !== (await count()); await wait(8_000)) before = await count()
  const recorded = await eventsOf((text, values) => db.query(text, values), ids)
  await concord.close()
  await vendor.close()
  await database.close()
  await rm(folder, { recursive: true, force: true })
  return recorded
}

type Room = {
  readonly world: unknown
  readonly approvals: unknown
  readonly tenant: {
    readonly workspace: { readonly id: string }
    readonly people: Readonly<Record<'admin' | 'writer', { readonly principal: object }>>
  }
  readonly provider: { readonly modes: string[] }
  rows: Rows
  submit(payload: object, more: object): Promise<string>
  settle(commandId: string): Promise<string>
  close(): Promise<void>
}
type Act = (deps: unknown, by: unknown, input: object) => Promise<unknown>

async function runRandom(load: Load): Promise<Recorded> {
  const { openTestRoom, decider } = await load<{ openTestRoom(): Promise<Room>; decider(room: Room): object }>(
    'test/support/commands.ts',
  )
  const commands = await load<
    Record<'cancelCommand' | 'retryCommand' | 'compensateCommand' | 'supplyInput', Act> & {
      actingFor(principal: object, traceId: string): unknown
    }
  >('src/domains/commands/index.ts')
  const { decideApproval } = await load<{ decideApproval: Act }>('src/domains/approvals/index.ts')
  const { byPerson } = await load<{ byPerson?: (principal: object, traceId: string) => unknown }>(
    'src/kernel/actor.ts',
  ).catch(() => ({ byPerson: undefined }))
  const room = await openTestRoom()
  const { id: workspaceId } = room.tenant.workspace
  const operator = commands.actingFor(room.tenant.people.admin.principal, TRACE)
  const approver = byPerson ? byPerson(decider(room), TRACE) : decider(room)
  const seeded = openChance(options.seed)
  const ids: Record<string, string> = {}
  const effects = [
    'connector.hotel.book_a',
    'connector.hotel.book_b',
    'connector.ticket.open',
    'work.echo',
    'work.drifting',
  ]
  const decisions = ['allow', 'allow', 'allow', 'deny', 'require_more_input', 'require_approval', 'route']
  const modes = ['ok', 'ok', 'ok', 'ok', 'refuse', 'fail_after', 'fail_before']
  for (let n = 0; n < Number(options.commands); n++) {
    const chance = seeded.split(String(n))
    const taskName = chance.pick(['Echo', 'Work', 'Work', 'Booking'])
    const steps = taskName === 'Echo' ? [] : Array.from({ length: chance.whole(4) }, () => chance.pick(effects))
    room.provider.modes.splice(0, Number.POSITIVE_INFINITY, ...Array.from({ length: 6 }, () => chance.pick(modes)))
    const commandId = await room.submit({ subject: `s${n}`, steps, decide: chance.pick(decisions) }, { taskName })
    ids[`random ${n}`] = commandId
    const about = { workspaceId, commandId, reason: 'as the bench wants it' }
    for (let move = 0; move < 4; move++) {
      const status = await room.settle(commandId)
      const [pending] = await room.rows(
        `select approval_id from concord.approvals where command_id = $1 and status = 'pending' order by created_at limit 1`,
        [commandId],
      )
      const way = chance.whole(4)
      if (pending) {
        const decision = way === 0 ? 'rejected' : 'approved'
        const given = { workspaceId, approvalId: pending['approval_id'], decision, reason: 'yes', traceId: TRACE }
        await decideApproval(room.approvals, approver, given)
      } else if (status === 'waiting_for_input') {
        if (way === 0) await commands.cancelCommand(room.world, operator, about)
        else await commands.supplyInput(room.world, operator, { ...about, input: { note: 'n' } })
      } else if (status === 'failed') {
        const act = [commands.retryCommand, commands.compensateCommand, commands.cancelCommand][way]
        if (!act) break
        await act(room.world, operator, about)
      } else break
    }
  }
  const recorded = await eventsOf((text, values) => room.rows(text, values), ids)
  await room.close()
  return recorded
}
