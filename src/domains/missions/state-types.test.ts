/** The coordinator asks for the type of a state wherever the type is enough, so that a further state changes no scheduling. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { missionRunMachine, missionTaskMachine } from '#kernel/machines/mission'

/** The modules that decide what happens next. */
const coordinator = [
  'drive-mission',
  'turn',
  'run-tasks',
  'settle',
  'dispatch',
  'stalls',
  'verify',
  'end-mission',
  'reconcile-missions',
  'claim-task',
  'mission-task',
]

/** The names are all states of one type or of several: the type says the same. */
function isWhole(names: readonly string[], states: Readonly<Record<string, string>>): boolean {
  const types = new Set(names.map((name) => states[name]))
  const all = Object.keys(states).filter((name) => types.has(states[name]))
  return names.length > 0 && names.every((name) => name in states) && all.length === new Set(names).size
}

const compared = [
  /\b(\w+)\.state (?:not )?in \(([^)]*)\)/g,
  /\b(\w+)\.state (?:=|<>|===|!==) ('\w+')/g,
  /()\[([^\]]*)\]\.includes\((?:\w+\.)?state\)/g,
]

const findWhole = (text: string) =>
  compared.flatMap((pattern) =>
    [...text.matchAll(pattern)].flatMap(([found, of = '', list = '']) => {
      const names = [...list.matchAll(/'(\w+)'/g)].map(([, name = '']) => name)
      const { states } = of === 'r' || of === 'run' ? missionRunMachine : missionTaskMachine
      return isWhole(names, states) ? [found] : []
    }),
  )

describe('types of states', () => {
  test('[MIS-018] no module of the coordinator lists the states of a type where the type is enough', async () => {
    for (const name of coordinator) {
      const text = await readFile(join(import.meta.dirname, `${name}.ts`), 'utf8')
      assert.deepEqual(findWhole(text), [], name)
    }
    assert.deepEqual(findWhole(`t.state in ('assigned', 'continuing', 'running') and run.state !== 'running'`), [
      `t.state in ('assigned', 'continuing', 'running')`,
      `run.state !== 'running'`,
    ])
    assert.deepEqual(findWhole(`t.state in ('queued', 'awaiting_retry') and t.state = 'running'`), [])
  })
})
