/** A machine is in three places that must agree: the table of the kernel, the closed list of its column, and its drawing. */
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'

export type MachineTable = {
  readonly name: string
  readonly states: Readonly<Record<string, string>>
  readonly moves: readonly { readonly from: string; readonly to: string }[]
}

/** The column with the states of each machine, as `schema.table.column`; the default for `x` is `concord.xs.status`. */
const columnOfMachine: Readonly<Record<string, string>> = {
  command: 'concord.commands.status',
  approval: 'concord.approvals.status',
  effect: 'concord.domain_effects.status',
  artifact: 'concord.artifacts.status',
  'memory-candidate': 'concord.memory_candidates.status',
  'memory-record': 'concord.memory_records.status',
  'connector-invocation': 'concord.connector_invocations.status',
  'swarm-run': 'concord.swarm_runs.status',
  'agent-run': 'concord.agent_runs.status',
  'agent-invocation': 'concord.agent_invocations.status',
  'registry-entity': 'concord.registry_entities.status',
  'registry-version': 'concord.registry_versions.status',
  'registry-binding': 'concord.registry_bindings.status',
  'registry-evaluation': 'concord.registry_evaluations.status',
  'mission-run': 'missions.orchestration_runs.state',
  'mission-task': 'missions.orchestration_tasks.state',
  'colony-mission': 'colony.colony_missions.status',
  'colony-review': 'colony.colony_missions.review_status',
  'colony-task': 'colony.colony_tasks.status',
  'colony-proposal': 'colony.colony_writeback_proposals.approval_status',
  'flow-task': 'flow.tasks.status',
  'flow-outbox': 'flow.outbox.status',
}

/** Stored in the SQLite file of the scheduler, which its own tests read. */
const inSqlite: readonly string[] = ['scheduler-job', 'scheduler-job-run', 'scheduler-reservation']

/** Machines without a table so far. An entry with a table is a mistake. */
const withoutTable: readonly string[] = [
  'registry-entity',
  'registry-version',
  'registry-binding',
  'registry-evaluation',
  'colony-mission',
  'colony-review',
  'colony-task',
  'colony-proposal',
]

const dumpPath = 'src/store/schema.sql'

export function checkMachines(tree: Tree, machines: readonly MachineTable[], waiting = withoutTable): Finding[] {
  const columns = checkLists(tree.get(dumpPath) ?? '')
  return [
    ...machines.flatMap((machine) => [...columnFindings(machine, columns, waiting), ...drawingFindings(machine, tree)]),
    ...undrawn(machines, tree),
  ]
}

function columnFindings({ name, states }: MachineTable, columns: CheckLists, waiting: readonly string[]): Finding[] {
  if (inSqlite.includes(name)) return []
  const column = columnOfMachine[name] ?? `concord.${name.replaceAll('-', '_')}s.status`
  const allowed = columns.get(column)
  if (waiting.includes(name)) {
    return allowed
      ? [{ path: 'test/tidy/machines.ts', problem: `${name} has its table now; take it off the list` }]
      : []
  }
  if (!allowed) return [{ path: dumpPath, problem: `${column} has no closed list for ${name}` }]
  return differences(Object.keys(states), allowed).map((problem) => ({
    path: dumpPath,
    problem: `${column}: ${problem}`,
  }))
}

type CheckLists = ReadonlyMap<string, readonly string[]>

/** `check (… in (…))`, as Postgres prints it for text, for varchar and for a column of a domain. */
const closedList = /CHECK \(\(\(?(\w+)\)?(?:::text)? = ANY \(\(?ARRAY\[([^\]]*)\][^)]*\)(?:::text\[\]\))?\)\)[,;]?$/gim

const quoted = (values: string) => [...values.matchAll(/'([^']*)'/g)].flatMap((value) => value[1] ?? [])

/** Every column of a schema dump with a closed list, from its own CHECK or from its domain. */
export function checkLists(dump: string): CheckLists {
  const domains = new Map<string, string[]>()
  for (const [line, domain = ''] of dump.matchAll(/^create domain (\S+) as .*$/gim)) {
    for (const [, , values = ''] of line.matchAll(closedList)) domains.set(domain, quoted(values))
  }
  const lists = new Map<string, string[]>()
  for (const [, table = '', body = ''] of dump.matchAll(/^create table (\S+) \(\n([\s\S]*?)^\)/gim)) {
    for (const [, column = '', type = ''] of body.matchAll(/^ {2}(\w+) +([\w.]+)/gm)) {
      const values = domains.get(type)
      if (values) lists.set(`${table}.${column}`, values)
    }
    for (const [, column = '', values = ''] of body.matchAll(closedList))
      lists.set(`${table}.${column}`, quoted(values))
  }
  return lists
}

function drawingFindings({ name, states, moves }: MachineTable, tree: Tree): Finding[] {
  const path = `docs/machines/${name}.md`
  const page = tree.get(path)
  if (page === undefined) return [{ path, problem: `the drawing of ${name} is missing: npm run draw` }]
  const drawnStates = [...section(page, 'States').matchAll(/^\| `([^`]+)`[^|]*\| (\w+)/gm)].map(
    ([, state, type]) => `${state} (${type})`,
  )
  const drawnMoves = [...section(page, 'Moves').matchAll(/^\| `([^`]+)` \| `([^`]+)` \|/gm)].map(
    ([, from, to]) => `${from} → ${to}`,
  )
  return [
    ...differences(
      Object.entries(states).map(([state, type]) => `${state} (${type})`),
      drawnStates,
    ),
    ...differences(
      moves.map(({ from, to }) => `${from} → ${to}`),
      drawnMoves,
    ),
  ].map((problem) => ({ path, problem }))
}

function undrawn(machines: readonly MachineTable[], tree: Tree): Finding[] {
  return [...tree.keys()]
    .filter((path) => /^docs\/machines\/(?!README)[^/]+\.md$/.test(path))
    .filter((path) => !machines.some(({ name }) => path === `docs/machines/${name}.md`))
    .map((path) => ({ path, problem: 'draws a machine that the kernel does not have' }))
}

function section(page: string, title: string): string {
  return new RegExp(`^## ${title}\\n([\\s\\S]*?)(?=^## |$(?![\\s\\S]))`, 'm').exec(page)?.[1] ?? ''
}

function differences(kernel: readonly string[], other: readonly string[]): string[] {
  return [
    ...kernel.filter((each) => !other.includes(each)).map((each) => `${each} is in the kernel only`),
    ...other.filter((each) => !kernel.includes(each)).map((each) => `${each} is not in the kernel`),
  ]
}
