/** kill -9 of workers that hold a lease, and of the server: every task is done by another worker, and each attempt starts once. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { findBrokenInvariants } from '#domains/commands'
import { missionInvariants } from '#domains/missions'
import { until } from '#test/until'
import { kill, openInstallation } from './installation.ts'

const PATIENT_MS = 300_000
const TASKS = 16
const script = join(import.meta.dirname, 'lease-process.ts')

test('workers and the server are killed with leases: all tasks are done, each attempt starts once', {
  timeout: PATIENT_MS,
}, async () => {
  const installation = await openInstallation({ seed: 'leases' })
  const { db, folder } = installation
  const book = join(folder, 'worker-book')
  await writeFile(book, '')
  let server = await installation.serve()
  const key = await installation.asker()
  const workers = new Set<ChildProcess>()
  const hire = () => {
    const worker = spawn(process.execPath, [script, server.address, key, book], { stdio: 'ignore' })
    workers.add(worker)
    return worker
  }
  const end = async (worker: ChildProcess) => {
    workers.delete(worker)
    worker.kill('SIGKILL')
    await once(worker, 'exit')
  }
  const linesOf = async (worker: ChildProcess) =>
    (await readFile(book, 'utf8')).split('\n').filter((line) => line.startsWith(`${worker.pid} `)).length
  try {
    const task = (_: unknown, at: number) => ({
      temp_id: `t${at}`,
      title: `t${at}`,
      task_type: 'other',
      run: { worker: 'chaos', payload: { at } },
    })
    const plan = {
      version: 1,
      strategy: 'parallel',
      estimated_cost: '0',
      tasks: Array.from({ length: TASKS }, task),
    }
    const config = {
      autonomy: 'full_auto',
      retry: { max_retries: 50, base_seconds: 0.1, cap_seconds: 0.2 },
      timeouts: { task_assign_seconds: 1, task_stall_seconds: 1 },
    }
    const asked = await fetch(`${server.address}/missions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ goal: 'Leases', plan, config }),
    })
    assert.equal(asked.status, 201, await asked.clone().text())
    // Each is killed right after it began a task.
    for (let kills = 0; kills < 3; kills++) {
      const victim = hire()
      await until(async () => (await linesOf(victim)) > 0, 'a worker that works')
      await end(victim)
    }
    const first = hire()
    await until(async () => (await linesOf(first)) > 0, 'a worker that works')
    await kill(server)
    server = await installation.serve()
    hire()
    const state = async () =>
      (await db.query<{ state: string }>('select state from missions.orchestration_runs'))[0]?.state
    await until(async () => (await state()) !== 'running', 'the end of the mission')
    assert.equal(await state(), 'completed')
    const [row] = await db.query<Record<'done' | 'submitted' | 'lost', number>>(
      `select (select count(*)::int from missions.orchestration_tasks where state = 'completed') as done,
         count(*) filter (where event_type = 'task_output_submitted')::int as submitted,
         count(*) filter (where event_type = 'stall_detected')::int as lost from missions.orchestration_events`,
    )
    assert.deepEqual([row?.done, row?.submitted], [TASKS, TASKS])
    assert.ok((row?.lost ?? 0) >= 3, `${row?.lost} leases ended`)
    assert.deepEqual(await findBrokenInvariants(db, undefined, missionInvariants), [])
  } finally {
    for (const worker of workers) await end(worker)
    await kill(server)
    await installation.close()
  }
})
