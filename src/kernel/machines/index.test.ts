import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decideMove, isState, type Machine, statesOf, typeOf } from '../machine.ts'
import { endless, exitsFromTerminal, unreachable } from '../machine-graph.ts'
import { actorTypes, colonyActors, concordActors, flowActors, schedulerActors } from '../actor.ts'
import { allMachines } from './index.ts'

const SNAKE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/u
const names = (machine: Machine, moves: Machine['moves']) =>
  moves.map((move) => `${machine.name}: ${move.from} → ${move.to}`)

function actorsOf(machine: Machine): readonly string[] {
  if (machine.name.startsWith('mission-')) return actorTypes
  if (machine.name.startsWith('colony-')) return colonyActors
  if (machine.name.startsWith('flow-')) return flowActors
  if (machine.name.startsWith('scheduler-')) return schedulerActors
  return concordActors
}

describe('all machines', () => {
  test('each has a name of its own and a sentence', () => {
    assert.equal(new Set(allMachines.map((machine) => machine.name)).size, allMachines.length)
    for (const machine of allMachines) {
      assert.match(machine.name, /^[a-z]+(-[a-z]+)*$/u)
      assert.match(machine.title, /^[A-Z].*\.$/u)
    }
  })

  test('[ST-23] approval, artifact, agent run, swarm run and memory each have a table of their own', () => {
    const known = allMachines.map((machine) => machine.name)
    for (const name of ['approval', 'artifact', 'agent-run', 'swarm-run', 'memory-record', 'memory-candidate']) {
      assert.ok(known.includes(name), name)
    }
  })

  test('every state can be reached from the initial one', () => {
    assert.deepEqual(
      allMachines.flatMap((machine) => unreachable(machine).map((state) => `${machine.name}: ${state}`)),
      [],
    )
  })

  test('every state can come to an end; only a registry entity lives for ever, because its name does', () => {
    assert.deepEqual(
      allMachines.flatMap((machine) => endless(machine).map((state) => `${machine.name}: ${state}`)),
      ['registry-entity: active', 'registry-entity: archived'],
    )
  })

  test('no terminal state has an exit, except these decisions after the end', () => {
    assert.deepEqual(
      allMachines.flatMap((machine) => names(machine, exitsFromTerminal(machine))),
      [],
    )
    const decided = allMachines.flatMap((machine) =>
      names(
        machine,
        machine.moves.filter((move) => move.afterEnd),
      ),
    )
    assert.deepEqual(decided, [
      // A failed command has ended its run; a person or a policy may order another run, an undoing, or close it.
      'command: failed → queued',
      'command: failed → compensating',
      'command: failed → cancelled',
      // Retention takes what is no longer in use.
      'artifact: superseded → archived',
      'artifact: cancelled → archived',
      // The subject of a memory may have it erased in every state of the record.
      'memory-record: superseded → deleted',
      'memory-record: expired → deleted',
    ])
    for (const machine of allMachines) {
      for (const move of machine.moves.filter((each) => each.afterEnd)) {
        assert.equal(machine.states[move.from], 'terminal')
        assert.ok(move.when !== undefined && !move.by.includes('worker'), `${machine.name}: ${move.from} → ${move.to}`)
      }
    }
  })

  test('a state whose type depends on facts is never terminal by its name alone', () => {
    for (const machine of allMachines) {
      for (const rule of machine.byFact ?? []) {
        assert.ok(isState(machine, rule.state))
        assert.notEqual(machine.states[rule.state], 'terminal')
        assert.notEqual(typeOf(machine, rule.state), 'terminal')
      }
    }
  })

  test('no move to itself, no pair twice, no initial state that has ended', () => {
    for (const machine of allMachines) {
      assert.deepEqual(
        names(
          machine,
          machine.moves.filter((move) => move.from === move.to),
        ),
        [],
      )
      assert.equal(new Set(names(machine, machine.moves)).size, machine.moves.length, machine.name)
      assert.notEqual(machine.states[machine.initial], 'terminal', machine.name)
    }
  })

  test('every move and every creation names its actors, all of its family, none twice', () => {
    for (const machine of allMachines) {
      for (const { by } of [...machine.moves, ...(machine.creation ? [machine.creation] : [])]) {
        assert.ok(by.length > 0, machine.name)
        assert.equal(new Set(by).size, by.length, machine.name)
        for (const actor of by) assert.ok(actorsOf(machine).includes(actor), `${machine.name}: ${actor}`)
      }
    }
  })

  test('no agent moves a row of commands, approvals, effects, artifacts, memory or the registry', () => {
    const governed = allMachines.filter((machine) => actorsOf(machine) === concordActors)
    assert.ok(governed.length >= 14)
    for (const machine of governed)
      for (const move of machine.moves) assert.ok(!move.by.includes('agent'), machine.name)
  })

  test('every event is snake_case and appended once per move', () => {
    for (const machine of allMachines) {
      for (const { emits } of [...machine.moves, ...(machine.creation ? [machine.creation] : [])]) {
        assert.equal(new Set(emits).size, emits.length, machine.name)
        for (const event of emits) assert.match(event, SNAKE)
      }
    }
  })

  test('rows of commands and what they make use the names of the domain events and no others', () => {
    // `status_changed` serves every status column: its payload says which row changed.
    const known = `
      command_created status_changed cancellation_requested compensation_started compensation_completed compensation_drift
      approval_requested approval_decided approval_expired approval_cancelled effect_planned effect_executed effect_failed
      connector_called memory_candidate_created memory_written artifact_created artifact_published subagent_spawned`
      .trim()
      .split(/\s+/u)
    // The machines of later rooms have names of their own, pinned in test/tidy/pins/event-names.json.
    const first = /^(command|approval|effect|artifact|memory-|connector-|swarm-|agent-)/
    const machines = allMachines.filter((machine) => first.test(machine.name))
    const emitted = machines
      .flatMap((machine) => [machine.creation ?? { emits: [] }, ...machine.moves])
      .flatMap(({ emits }) => emits)
    assert.deepEqual([...new Set(emitted)].sort(), known.sort())
    for (const move of machines.flatMap((machine) => machine.moves))
      assert.ok(move.emits.length > 0, `${move.from} → ${move.to}`)
  })

  test('stamps and clears name existing states and never the same column in the same state', () => {
    for (const machine of allMachines) {
      const [stamps, clears] = [machine.stamps ?? [], machine.clears ?? []]
      for (const { column, on } of [...stamps, ...clears]) {
        assert.match(column, SNAKE)
        assert.ok(on.length > 0)
        for (const state of on) assert.ok(isState(machine, state), `${machine.name}: ${column} on ${state}`)
      }
      const both = stamps.flatMap((stamp) =>
        clears.filter((clear) => clear.column === stamp.column && clear.on.some((state) => stamp.on.includes(state))),
      )
      assert.deepEqual(both, [], machine.name)
    }
  })

  test('a random legal walk is accepted step by step for a named actor, and refused for a stranger', () => {
    fc.assert(
      fc.property(fc.constantFrom(...allMachines), fc.array(fc.nat(), { maxLength: 30 }), (machine, choices) => {
        let state = machine.initial
        for (const choice of choices) {
          const open = machine.moves.filter((move) => move.from === state)
          const move = open[choice % Math.max(open.length, 1)]
          if (!move) break
          assert.equal(decideMove(machine, state, move.to, move.by[choice % move.by.length] ?? '').ok, true)
          assert.equal(decideMove(machine, state, move.to, 'stranger').ok, false)
          state = move.to
        }
        assert.ok(statesOf(machine).includes(state))
      }),
    )
  })
})
