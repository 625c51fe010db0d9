import assert from 'node:assert/strict'
import { test } from 'node:test'
import { concord, kernel } from '#test/package'

test('[MIS-358] the package exports the closed lists of missions, and each can be iterated', () => {
  const { stateTypes, missionRunStates, missionTaskStates, actorTypes, missionTaskTypes, triggerRules } = kernel
  const { missionEventTypes } = concord
  const lists: Readonly<Record<string, readonly string[]>> = {
    stateTypes,
    missionRunStates,
    missionTaskStates,
    missionEventTypes,
    actorTypes,
    missionTaskTypes,
    triggerRules,
  }
  const sizes = Object.entries(lists).map(([name, list]) => [name, new Set(list).size, [...list].length])
  assert.deepEqual(sizes, [
    ['stateTypes', 4, 4],
    ['missionRunStates', 9, 9],
    ['missionTaskStates', 12, 12],
    ['missionEventTypes', 36, 36],
    ['actorTypes', 6, 6],
    ['missionTaskTypes', 8, 8],
    ['triggerRules', 4, 4],
  ])
})
