import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { afterEnd, defineMachine, moves } from '#kernel/machine'
import { allMachines } from '#kernel/machines/index'
import { renderAll, renderIndex, renderMermaid, renderPage } from './draw-machine.ts'

const kettle = defineMachine({
  name: 'kettle',
  title: 'A kettle.',
  states: { cold: 'pending', heating: 'running', held: 'paused', boiled: 'terminal', OPEN: 'pending' },
  initial: 'cold',
  nullState: 'OPEN',
  creation: { by: ['cook'], emits: ['kettle_filled'] },
  moves: [
    ...moves('cold', ['heating', 'OPEN'], ['cook'], ['kettle_moved']),
    ...moves('heating', 'held', ['cook', 'timer'], ['kettle_moved'], 'lid open | spout shut'),
    ...moves('heating', 'boiled', ['timer'], ['kettle_moved', 'kettle_sang']),
    ...afterEnd(moves('boiled', 'cold', ['cook'], ['kettle_moved'], 'It is poured out.')),
  ],
  lock: 'lease',
  stamps: [
    { column: 'boiled_at', on: ['boiled'] },
    { column: 'lit_at', on: ['heating'], once: true },
  ],
  clears: [{ column: 'boiled_at', on: ['cold'] }],
  byFact: [{ state: 'held', column: 'dry_at', is: 'set', type: 'terminal' }],
})

describe('drawing', () => {
  test('a machine becomes this Mermaid text', () => {
    assert.equal(
      renderMermaid(kettle),
      `stateDiagram-v2
  classDef type_pending fill:#e8eef7,stroke:#5b7db1,color:#1b2a41
  classDef type_running fill:#dff3e4,stroke:#3b8f5a,color:#12351f
  classDef type_paused fill:#fff3d6,stroke:#b8860b,color:#4a3500
  classDef type_terminal fill:#ececec,stroke:#6b6b6b,color:#2b2b2b
  [*] --> cold : kettle_filled
  cold --> heating
  cold --> OPEN
  heating --> held
  heating --> boiled : kettle_sang
  boiled --> cold : after the end
  boiled --> [*]
  held --> [*] : dry_at is set
  class cold,OPEN type_pending
  class heating type_running
  class held type_paused
  class boiled type_terminal`,
    )
  })

  test('the page says stamps, facts, actors, events and conditions, and a bar does not break its table', () => {
    const page = renderPage(kettle)
    for (const line of [
      '| `cold` | pending |  | `boiled_at` |',
      '| `heating` | running | `lit_at` once |  |',
      '| `held` | paused; terminal when `dry_at` is set |  |  |',
      '| `OPEN` (stored as NULL) | pending |  |  |',
      '| (new) | `cold` | cook | `kettle_filled` |  |',
      '| `heating` | `held` | cook, timer | `kettle_moved` | lid open \\| spout shut |',
      '| `boiled` | `cold` | cook | `kettle_moved` | After the end. It is poured out. |',
    ]) {
      assert.ok(page.split('\n').includes(line), line)
    }
    assert.match(page, /^A kettle\. 5 states, 5 moves; two writers are kept apart by a lease token\.$/mu)
  })

  test('the index links every machine in reading order', () => {
    const links = [...renderIndex(allMachines).matchAll(/^\| \[([a-z-]+)\]\(\1\.md\)/gmu)].map((match) => match[1])
    assert.deepEqual(
      links,
      allMachines.map((machine) => machine.name),
    )
  })

  test('every state of every machine is an identifier that Mermaid accepts', () => {
    // Checked with Mermaid 11: letters and underscores, and no reserved word.
    const words = new Set([
      'end',
      'state',
      'class',
      'classDef',
      'note',
      'direction',
      'as',
      'fork',
      'join',
      'choice',
      'style',
    ])
    for (const machine of allMachines) {
      for (const state of Object.keys(machine.states))
        assert.ok(/^[A-Za-z_]+$/u.test(state) && !words.has(state), state)
    }
  })
})

describe('npm run draw', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'concord-draw-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const draw = (...args: readonly string[]) => {
    const script = path.join(import.meta.dirname, 'draw.ts')
    return spawnSync(process.execPath, [script, '--into', folder, ...args], { encoding: 'utf8' })
  }

  test('check fails on an empty folder, passes after drawing, and names what was touched, lost or left over', () => {
    assert.equal(draw('--check').status, 1)
    assert.deepEqual(readdirSync(folder), [], 'check writes nothing')

    assert.equal(draw().status, 0)
    assert.deepEqual(readdirSync(folder).sort(), [...renderAll(allMachines).keys()].sort())
    assert.equal(draw('--check').status, 0)

    const at = (name: string) => path.join(folder, name)
    writeFileSync(at('effect.md'), readFileSync(at('effect.md'), 'utf8').replace('planned', 'plotted'))
    rmSync(at('approval.md'))
    writeFileSync(at('gone.md'), renderPage(kettle))
    writeFileSync(at('notes.md'), 'written by a person')
    const stale = draw('--check')
    assert.equal(stale.status, 1)
    const named = stale.stderr.split('\n').map((line) => line.replace(`${folder}/`, ''))
    assert.deepEqual(named.slice(0, 4).sort(), [
      'left over: gone.md',
      'missing: approval.md',
      'run `npm run draw`',
      'stale: effect.md',
    ])

    assert.equal(draw().status, 0)
    assert.equal(draw('--check').status, 0)
    assert.ok(readdirSync(folder).includes('notes.md') && !readdirSync(folder).includes('gone.md'))
  })

  test('the committed drawings are those of the tables', () => {
    const committed = path.join(import.meta.dirname, '..', 'docs', 'machines')
    for (const [name, text] of renderAll(allMachines)) {
      assert.equal(readFileSync(path.join(committed, name), 'utf8'), text, `docs/machines/${name}: run npm run draw`)
    }
  })
})
