import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readQueueLimits } from './queue-limits.ts'

const outcome = (project: unknown, environment?: string) => {
  const read = readQueueLimits({ project, variable: environment })
  return read.ok ? read.value : `${read.code}: ${read.reason}; ${read.path}; ${read.hint ?? ''}`
}

describe('limits of queues', () => {
  test('without settings nothing changes; settings override the defaults, and the environment overrides the project', () => {
    assert.deepEqual(outcome(undefined), {})
    assert.deepEqual(outcome({ agent_runs: { priority: 3 } }), { agent_runs: { perWorker: 16, priority: 3 } })
    assert.deepEqual(
      outcome(
        { connector_calls: { rate: { turns: 10, perMs: 1_000 }, perWorker: 8 }, notifications: { perWorker: 2 } },
        '{"connector_calls":{"concurrency":20,"perWorker":5}}',
      ),
      {
        connector_calls: { perWorker: 5, rate: { turns: 10, perMs: 1_000 }, concurrency: 20 },
        notifications: { perWorker: 2 },
      },
    )
  })

  test('a small total limit also limits each worker', () => {
    assert.deepEqual(outcome({ connector_calls: { concurrency: 2 } }), {
      connector_calls: { perWorker: 2, concurrency: 2 },
    })
  })

  for (const [what, project, environment, expected] of [
    [
      'an unknown queue',
      { conector_calls: {} },
      undefined,
      /^"app\.project\.invalid: .*Did you mean connector_calls\?/,
    ],
    [
      'an unknown limit',
      { agent_runs: { perworker: 1 } },
      undefined,
      /^"app\.project\.invalid: .*\\"perworker\\".*Did you mean perWorker/,
    ],
    [
      'a partition, which is not a limit',
      { agent_runs: { partition: { concurrency: 1 } } },
      undefined,
      /\\"partition\\"/,
    ],
    ['no JSON', {}, 'connector_calls=2', /^"app\.setting\.invalid: CONCORD_QUEUES is not JSON/],
    ['a list', {}, '[]', /must be an object/],
    ['a number as limits', { agent_runs: 4 }, undefined, /must be an object/],
    ['text as a number', {}, '{"agent_runs":{"concurrency":"4"}}', /must be numbers/],
    ['half a rate', {}, '{"agent_runs":{"rate":{"turns":4}}}', /a rate must have turns and perMs/],
    [
      'zero',
      {},
      '{"agent_runs":{"concurrency":0}}',
      /which is not a whole number of at least 1\.; CONCORD_QUEUES: agent_runs/,
    ],
    [
      'more for one than for all',
      { agent_runs: { concurrency: 2, perWorker: 3 } },
      undefined,
      /3 turns in one worker but only 2 in total/,
    ],
    ['an invalid priority', { agent_runs: { priority: -1 } }, undefined, /priority -1/],
  ] as const)
    test(`${what} stops the start and says where`, () =>
      assert.match(JSON.stringify(outcome(project, environment)), expected))

  const environments = {
    staging: { queues: { connector_calls: { concurrency: 2 } } },
    production: { queues: { connector_calls: { concurrency: 50, perWorker: 10 }, agent_runs: { perWorker: 8 } } },
    laptop: {},
  }
  const within = (environmentName: string | undefined, more: object = {}) => {
    const read = readQueueLimits({
      project: { connector_calls: { perWorker: 20 } },
      environments,
      environmentName,
      ...more,
    })
    return read.ok ? read.value : `${read.code}: ${read.reason}; ${read.path}; ${read.hint ?? ''}`
  }

  test('[OQ-10] each environment has its own limits under the same names; they override the project, and the variable overrides them', () => {
    assert.deepEqual(within(undefined), { connector_calls: { perWorker: 20 } })
    assert.deepEqual(within('laptop'), { connector_calls: { perWorker: 20 } })
    assert.deepEqual(within('staging'), { connector_calls: { perWorker: 2, concurrency: 2 } })
    assert.deepEqual(within('production'), {
      connector_calls: { perWorker: 10, concurrency: 50 },
      agent_runs: { perWorker: 8 },
    })
    assert.deepEqual(within('staging', { variable: '{"connector_calls":{"concurrency":1}}' }), {
      connector_calls: { perWorker: 1, concurrency: 1 },
    })
  })

  for (const [what, sources, expected] of [
    [
      'an environment that the project does not know',
      { environmentName: 'stagin' },
      /^"app\.setting\.invalid: .*Did you mean staging\?/,
    ],
    [
      'an environment of a project that declares none',
      { environments: undefined },
      /^"app\.setting\.invalid: .*environments: \{ staging: \{\} \}/,
    ],
    [
      'a mistake in another environment',
      { environments: { ...environments, far: { queues: { agent_run: {} } } } },
      /^"app\.project\.invalid: .*environments\.far\.queues: .*Did you mean agent_runs\?/,
    ],
    ['an invalid name', { environments: { 'My Mac': {} } }, /^"app\.project\.invalid: .*is not an environment name/],
    [
      'unknown fields of an environment',
      { environments: { staging: { workers: 3 } } },
      /^"app\.project\.invalid: .*no field \\"workers\\"/,
    ],
    ['no terms at all', { environments: { staging: 3 } }, /^"app\.project\.invalid: .*must be an object/],
    ['a list of environments', { environments: [] }, /^"app\.project\.invalid: environments must be an object/],
  ] as const)
    test(`${what} stops the start and says where`, () =>
      assert.match(JSON.stringify(within('staging', sources)), expected))
})
