/** A memory room with its commands, a runtime that a test steps, and people who decide. */
import type { ApprovalDeps } from '../../src/domains/approvals/index.ts'
import {
  anyHost,
  type CommandDeps,
  decideCandidate,
  followCandidates,
  memoryDefinitions,
  memoryFacts,
  type MemoryProposal,
  openApprovalOwner,
  openCatalog,
  openCommands,
  openDrive,
  proposeMemory,
  type ProposeMemory,
  shippedPolicies,
} from '../../src/domains/commands/index.ts'
import {
  grantConsent,
  type MemoryOptions,
  type MemoryDeps,
  openMemory,
  prepareWrite,
  type ProposedMemory,
  writeMemory,
  type Written,
} from '../../src/domains/memory/index.ts'
import type { Actor, Principal } from '../../src/kernel/actor.ts'
import type { Decision } from '../../src/kernel/refusal.ts'
import type { Db } from '../../src/store/db.ts'
import { nextFence } from './commands.ts'
import { openTestDb } from './database.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from './tenant.ts'
import { byPerson } from '#kernel/actor'

export type MemoryRoom = {
  readonly db: Db
  readonly clock: TestWorld
  readonly tenant: Tenant
  readonly workspaceId: string
  readonly memory: MemoryDeps
  readonly commands: CommandDeps
  readonly approvals: ApprovalDeps
  /** Proposes as the writer of the tenant and drives the command until it ends or waits. */
  propose(memory: ProposedMemory, more?: Partial<ProposeMemory>): Promise<Decision<MemoryProposal>>
  settle(commandId: string): Promise<string>
  /** The data owner decides, and the command and its candidates continue. */
  answer(proposal: MemoryProposal, decision: 'approved' | 'rejected'): Promise<string>
  follow(): Promise<number>
  consent(to: Pick<ProposedMemory, 'subject_type' | 'subject_id' | 'memory_type' | 'scope'>): Promise<string>
  rows<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  close(): Promise<void>
}

export const ada = { id: 'user:ada', kind: 'user', traceId: TRACE } as const

let subjects = 0

/** A preference that is written directly when its subject consents. */
export function aPreference(more: Partial<ProposedMemory> = {}): ProposedMemory {
  subjects += 1
  return {
    subject_type: 'customer',
    subject_id: `c${subjects}`,
    scope: 'user',
    memory_type: 'preference',
    content: { seat: 'aisle' },
    fact_key: 'travel.seat',
    confidence: 0.95,
    ...more,
  }
}

/** Runs the effect as the driver does: prepares, writes in one transaction, and prepares again if that is refused. */
export async function writeCandidate(
  memory: MemoryDeps,
  actor: Actor,
  input: Parameters<typeof prepareWrite>[2],
): Promise<Decision<Written>> {
  for (;;) {
    const prepared = await prepareWrite(memory, actor, input)
    if (!prepared.ok) return prepared
    const written = await memory.db.transaction((tx) => writeMemory(tx, memory, actor, prepared.value))
    if (written.ok) return written
  }
}

/** A user who cannot see the private memory of others. */
export function aReader(userId: string): Actor {
  const principal = { ...aPrincipal, userId, externalId: userId }
  return { id: `user:${userId}`, kind: 'user', traceId: TRACE, principal }
}

const aPrincipal: Principal = {
  credential: 'api_key',
  userId: '',
  orgId: '',
  orgSlug: '',
  externalId: '',
  email: null,
  role: 'reader',
  orgRoles: [],
  keyId: null,
  workspaceId: null,
}

const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = ms >= 1_000 ? undefined : setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()))
  })

export async function openMemoryRoom(deps: Partial<MemoryOptions> = {}): Promise<MemoryRoom> {
  // A thousand callers share eight connections; on a busy machine the last one waits long.
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 8 })
  const { db } = opened
  const clock = aWorld(db)
  const tenant = await aTenant(clock)
  const memory = accepted(await openMemory({ db, now: clock.now, newId: clock.newId, ...deps }))
  const catalog = accepted(openCatalog([...shippedPolicies, ...memoryDefinitions(memory)], anyHost))
  const commands = openCommands({
    db,
    now: clock.now,
    newId: clock.newId,
    random: () => 0.5,
    catalog,
    facts: memoryFacts(memory),
    wake: async () => {},
    sleep,
  })
  const { deps: world } = commands
  const drive = openDrive(world)
  const approvals = { db, newId: clock.newId, types: world.approvalTypes, owner: openApprovalOwner(world) }
  const workspaceId = tenant.workspace.id
  const writer = tenant.people.writer.principal
  const admin = tenant.people.admin.principal
  const room: MemoryRoom = {
    db,
    clock,
    tenant,
    workspaceId,
    memory,
    commands: world,
    approvals,
    async propose(proposed, more = {}) {
      const by = { id: `user:${writer.userId}`, kind: 'user' as const, traceId: TRACE, principal: writer }
      const made = await proposeMemory(world, memory, by, {
        workspaceId,
        memory: proposed,
        requestId: 'req_test',
        ...more,
      })
      if (made.ok) await room.settle(made.value.command.command_id)
      return made
    },
    async settle(commandId) {
      for (let turns = 0; turns < 50; turns++) {
        const next = await drive(commandId, nextFence())
        if (next.t === 'done' || (next.t === 'wait' && (next.until === null || next.until > clock.now()))) break
      }
      const [row] = await room.rows<{ status: string }>('select status from concord.commands where command_id = $1', [
        commandId,
      ])
      return row?.status ?? 'absent'
    },
    async answer({ candidate, command }, decision) {
      const decider = { ...admin, orgRoles: ['data_owner'] }
      const { memory_candidate_id: candidateId } = candidate
      accepted(
        await decideCandidate(world, approvals, byPerson(decider, TRACE), {
          workspaceId,
          candidateId,
          decision,
          reason: 'test',
        }),
      )
      const status = await room.settle(command.command_id)
      await room.follow()
      return status
    },
    follow: () => followCandidates(memory, { traceId: TRACE }),
    async consent(to) {
      const given = accepted(await grantConsent(memory, ada, { workspaceId, ...to }))
      return given.memory_consent_id
    },
    rows: (text, values) => db.query(text, values),
    async close() {
      await commands.close()
      await opened.close()
    },
  }
  return room
}

/** Every row of every table as text, without the system catalogues. A test searches it for a word. */
export async function dumpDatabase(db: Db): Promise<string> {
  const tables = await db.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  const parts: string[] = []
  for (const { name } of tables) {
    const rows = await db.query<{ line: string }>(`select t::text as line from ${name} as t`)
    parts.push(`${name}\n${rows.map(({ line }) => line).join('\n')}`)
  }
  return parts.join('\n')
}
