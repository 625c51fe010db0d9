/** Renders a state machine as a Markdown page with a Mermaid drawing and its tables. Pure. */
import { type Machine, type Move, type StateType, stateTypes, statesOf, type TypeByFact } from '#kernel/machine'

/** The mark of every drawn page; it tells a page without a machine from a written one. */
export const DRAWN = '<!-- Drawn by `npm run draw`'

// One colour per kind of state; dark text on light fill reads on light and dark pages.
const styles: Record<StateType, string> = {
  pending: 'fill:#e8eef7,stroke:#5b7db1,color:#1b2a41',
  running: 'fill:#dff3e4,stroke:#3b8f5a,color:#12351f',
  paused: 'fill:#fff3d6,stroke:#b8860b,color:#4a3500',
  terminal: 'fill:#ececec,stroke:#6b6b6b,color:#2b2b2b',
}

const words: Record<TypeByFact['is'], string> = { set: 'is set', empty: 'is NULL', true: 'is true', false: 'is false' }

const code = (items: readonly string[]) => items.map((item) => `\`${item}\``).join(', ')
const row = (...cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
const arrow = (from: string, to: string, label: string) => `  ${from} --> ${to}${label === '' ? '' : ` : ${label}`}`

/** An arrow shows only what differs: events that not every move emits, and that the row had ended. */
function labelOf(machine: Machine, move: Move): string {
  const telling = move.emits.filter((event) => !machine.moves.every((other) => other.emits.includes(event)))
  return [...telling, ...(move.afterEnd ? ['after the end'] : [])].join(', ')
}

export function renderMermaid(machine: Machine): string {
  const states = statesOf(machine)
  const used = stateTypes.filter((type) => states.some((state) => machine.states[state] === type))
  const ends = states.filter((state) => machine.states[state] === 'terminal').map((state) => arrow(state, '[*]', ''))
  const endsByFact = (machine.byFact ?? [])
    .filter((rule) => rule.type === 'terminal')
    .map((rule) => arrow(rule.state, '[*]', `${rule.column} ${words[rule.is]}`))
  return [
    'stateDiagram-v2',
    ...used.map((type) => `  classDef type_${type} ${styles[type]}`),
    arrow('[*]', machine.initial, (machine.creation?.emits ?? []).join(', ')),
    ...machine.moves.map((move) => arrow(move.from, move.to, labelOf(machine, move))),
    ...ends,
    ...endsByFact,
    ...used.map((type) => `  class ${states.filter((state) => machine.states[state] === type).join(',')} type_${type}`),
  ].join('\n')
}

function typeText(machine: Machine, state: string): string {
  const rules = (machine.byFact ?? []).filter((rule) => rule.state === state)
  const facts = rules.map((rule) => `${rule.type} when \`${rule.column}\` ${words[rule.is]}`)
  return [machine.states[state] ?? '', ...facts].join('; ')
}

function stateRows(machine: Machine): readonly string[] {
  return statesOf(machine).map((state) => {
    const stamps = (machine.stamps ?? []).filter((stamp) => stamp.on.includes(state))
    const sets = stamps.map((stamp) => `\`${stamp.column}\`${stamp.once ? ' once' : ''}`).join(', ')
    const empties = code(
      (machine.clears ?? []).filter((clear) => clear.on.includes(state)).map((clear) => clear.column),
    )
    const name = state === machine.nullState ? `\`${state}\` (stored as NULL)` : `\`${state}\``
    return row(name, typeText(machine, state), sets, empties)
  })
}

function moveRows(machine: Machine): readonly string[] {
  return machine.moves.map((move) => {
    const when = [move.afterEnd ? 'After the end.' : '', move.when ?? ''].join(' ').trim()
    return row(code([move.from]), code([move.to]), move.by.join(', '), code(move.emits), when)
  })
}

export function renderPage(machine: Machine): string {
  const { creation } = machine
  return `# ${machine.name}

${DRAWN} from \`src/kernel/machines/\`; change the table there, not this page. -->

${machine.title} ${statesOf(machine).length} states, ${machine.moves.length} moves; two writers are kept apart by ${lockText(machine)}.

\`\`\`mermaid
${renderMermaid(machine)}
\`\`\`

## States

| State | Type | Sets | Empties |
|---|---|---|---|
${stateRows(machine).join('\n')}

## Moves

| From | To | By | Emits | When |
|---|---|---|---|---|
${creation ? `${row('(new)', code([machine.initial]), creation.by.join(', '), code(creation.emits), '')}\n` : ''}${moveRows(machine).join('\n')}
`
}

function lockText(machine: Machine): string {
  return { version: 'a version column', 'from-state': 'the state they saw', lease: 'a lease token' }[machine.lock]
}

export function renderIndex(machines: readonly Machine[]): string {
  const rows = machines.map((machine) =>
    row(
      `[${machine.name}](${machine.name}.md)`,
      machine.title,
      String(statesOf(machine).length),
      String(machine.moves.length),
      lockText(machine),
    ),
  )
  return `# State machines

${DRAWN} from \`src/kernel/machines/index.ts\`; change the tables there, not this page. -->

Every status column of Concord moves along one of these tables, and along nothing else. Four kinds of state are all that
scheduling code looks at: **pending** (blue) has not begun, **running** (green) is being worked on or in force, **paused** (yellow)
waits for somebody's decision, **terminal** (grey) has ended. Where a column beside the state decides whether a row has
ended, the page says so. A move "after the end" leaves a terminal state and is always a decision, never something the machinery does alone.

| Machine | What it is | States | Moves | Writers kept apart by |
|---|---|---|---|---|
${rows.join('\n')}
`
}

/** Every file of docs/machines by name. */
export function renderAll(machines: readonly Machine[]): ReadonlyMap<string, string> {
  return new Map([
    ['README.md', renderIndex(machines)],
    ...machines.map((machine) => [`${machine.name}.md`, renderPage(machine)] as const),
  ])
}
