/** Children of a dead scheduler are found by pid and start, by group, or by the run id in their environment. Other processes are left alone. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { openOrphanEnder } from './recover.ts'
import { openProcessTable, RUN_VARIABLE } from './process-table.ts'
import { wait } from '#test/scheduler/run-until-idle'
import { anId } from '#test/scheduler/fixture'

async function aChild(script: string, runId?: string): Promise<ChildProcess & { pid: number }> {
  const env = { PATH: process.env['PATH'], ...(runId === undefined ? {} : { [RUN_VARIABLE]: runId }) }
  const child = spawn('sh', ['-c', `echo ready; ${script}`], {
    detached: true,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await once(child.stdout, 'data')
  return child as unknown as ChildProcess & { pid: number }
}

const nobody = { jobId: anId(), pid: null, startedAt: null, bootId: null }

for (const source of ['proc', 'ps'] as const) {
  const table = openProcessTable(source)
  const { endOrphan } = openOrphanEnder({ wait, table, termMs: 100 })

  describe(`by ${source}`, () => {
    test('ends the child and its group by pid and start, even if it ignores SIGTERM', async () => {
      const child = await aChild('trap "" TERM; sleep 600 & wait; sleep 600')
      const exited = once(child, 'exit')
      const startedAt = table.startOf(child.pid)
      assert.ok(startedAt)
      assert.equal(
        await endOrphan({ ...nobody, runId: anId(), pid: child.pid, startedAt, bootId: table.bootId }),
        'ended',
      )
      await exited
      assert.equal(table.list('').filter(({ group }) => group === child.pid).length, 0)
    })

    test('finds a child whose pid was never recorded', async () => {
      const runId = anId()
      const child = await aChild('sleep 600; true', runId)
      const exited = once(child, 'exit')
      assert.equal(await endOrphan({ ...nobody, runId }), 'ended')
      await exited
    })

    test('leaves a process alone that reused the pid or started in another boot', async () => {
      const child = await aChild('exec sleep 600')
      const startedAt = table.startOf(child.pid)
      const identity = { ...nobody, runId: anId(), pid: child.pid, bootId: table.bootId }
      assert.equal(await endOrphan({ ...identity, startedAt: 'another time' }), 'gone')
      if (table.bootId !== null)
        assert.equal(await endOrphan({ ...identity, startedAt, bootId: 'another boot' }), 'gone')
      assert.equal(child.exitCode, null)
      child.kill('SIGKILL')
    })
  })
}

test('a child that cannot be ended or checked is reported as alive', async () => {
  const live = { pid: 7, group: 7, startedAt: 't', isOfRun: true }
  const hung = { bootId: null, startOf: () => 't', list: () => [live] }
  const blind = { ...hung, list: () => assert.fail('no table') }
  const identity = { ...nobody, runId: anId(), pid: 7, startedAt: 't' }
  for (const table of [hung, blind]) {
    const sent: string[] = []
    const ender = openOrphanEnder({ wait: async () => {}, table, signal: (_, name) => sent.push(name) })
    assert.equal(await ender.endOrphan(identity), 'alive')
    if (table === hung) assert.ok(sent.includes('SIGTERM') && sent.includes('SIGKILL'))
  }
})

test('the process that stores the outcome learns of a signal before its command can end by it', async () => {
  const [command, leader] = [300, 4_194_300].map((pid) => ({ pid, group: 4_194_300, startedAt: 't', isOfRun: true }))
  assert.ok(command && leader)
  const sent: number[] = []
  const table = { bootId: null, startOf: () => 't', list: () => (sent.length === 0 ? [command, leader] : []) }
  const ender = openOrphanEnder({ wait: async () => {}, table, signal: (pid) => sent.push(pid) })
  assert.equal(await ender.endOrphan({ ...nobody, runId: anId() }), 'ended')
  assert.deepEqual(sent, [leader.pid, command.pid])
})
