/** The clock of a machine with server and database runs ahead and is set right: what was written meanwhile is not believed. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { endProcess, freePort, runConcord, serveConcord, writeProject } from '#test/concord-process'
import { killDatabase } from '#test/embedded'
import { openShiftedClock } from '#test/shifted-clock'
import { until } from '#test/until'

const HOUR_S = 3_600

async function openMachine() {
  const folder = await mkdtemp(join(tmpdir(), 'concord-clock-'))
  const clock = await openShiftedClock(folder)
  if (!clock) {
    await rm(folder, { recursive: true })
    return undefined
  }
  await writeProject(folder, 'clock')
  const home = join(folder, 'home')
  const well = join(folder, 'well')
  const env = { ...clock.env, CONCORD_HOME: home, CONCORD_PORT: await freePort(), CLOCK_TEST_WELL: well }
  const options = { env, cwd: folder }
  let zeroS = 0
  let server = await serveConcord(options)
  const killAll = async () => {
    await endProcess(server, 'SIGKILL')
    await killDatabase(home)
  }
  const ask = async <T>(path: string, body?: object): Promise<T> => {
    const key = (await readFile(server.keyFile, 'utf8')).trim()
    const answer = await fetch(server.address + path, {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
    })
    const text = await answer.text()
    assert.ok(answer.ok, `${path}: ${answer.status} ${text}`)
    return JSON.parse(text) as T
  }
  return {
    /** Sets the clock this many seconds ahead of the true time, which is shortly before a full minute: nobody waits long for the next. */
    async set(aheadS: number) {
      zeroS += 57 - ((Math.floor(Date.now() / 1_000) + zeroS) % 60)
      await clock.set(zeroS + aheadS)
    },
    now: () => Date.now() + zeroS * 1_000,
    killAll,
    serve: async () => void (server = await serveConcord(options)),
    setWell: (isWell: boolean) => (isWell ? writeFile(well, '') : rm(well, { force: true })),
    doctor: () => runConcord(['doctor'], options),
    ask,
    submit: async (task_name: string) =>
      (await ask<{ command_id: string }>('/commands', { task_name, payload: {} })).command_id,
    status: async (id: string) => (await ask<{ status: string }>(`/commands/${id}`)).status,
    ticks: async () =>
      (await ask<{ items: { created_at: string }[] }>('/commands?task_name=Tick&limit=500')).items.map((tick) =>
        Date.parse(tick.created_at),
      ),
    async close() {
      await killAll()
      await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
    },
  }
}

type Machine = NonNullable<Awaited<ReturnType<typeof openMachine>>>

/** Writes of every kind while the clock is ahead: a firing, a call under way, a retry and a question. */
async function workAhead(machine: Machine, aheadS: number) {
  await machine.setWell(false)
  await machine.set(aheadS)
  const aheadMs = machine.now() + (aheadS * 1_000) / 2
  await until(async () => (await machine.ticks()).some((at) => at > aheadMs), 'a tick ahead')
  const hanging = await machine.submit('Hang')
  const asked = await machine.submit('Ask')
  await until(async () => (await machine.status(hanging)) === 'running', 'the call')
  await until(async () => (await machine.status(asked)) === 'waiting_for_approval', 'the question')
  const repeated = await machine.submit('Repeat')
  await until(async () => {
    const { items } = await machine.ask<{ items: { run_after: string | null }[] }>(`/commands/${repeated}/effects`)
    return items.some(({ run_after }) => run_after !== null)
  }, 'the retry')
  return { hanging, repeated, asked }
}

async function checkBack(machine: Machine, { hanging, repeated, asked }: Awaited<ReturnType<typeof workAhead>>) {
  const backAt = machine.now()
  await machine.setWell(true)
  await until(async () => (await machine.status(hanging)) === 'succeeded', 'the end of the call')
  await until(async () => (await machine.status(repeated)) === 'succeeded', 'the retry at its time')
  await until(
    async () => (await machine.ticks()).some((at) => at > backAt && at <= machine.now()),
    'a tick by the true clock',
  )
  const { items } = await machine.ask<{ items: { command_id: string; created_at: string; expires_at: string }[] }>(
    '/approvals',
  )
  const approval = items.find(({ command_id }) => command_id === asked)
  assert.ok(approval && Date.parse(approval.created_at) <= machine.now(), JSON.stringify(approval))
  const { out } = await machine.doctor()
  assert.match(out, /note +clock: was set back; .*: .*approval.*command.*schedule.*turn/)
}

describe('a clock that was ahead', () => {
  let machine: Machine | undefined
  before(async () => {
    machine = await openMachine()
  })
  after(() => machine?.close())
  const skip = (t: TestContext) => t.skip('needs Linux, root and a C compiler')

  test('[M2] [SCD-01] is set right by hours under a running server', async (t) => {
    if (!machine) return skip(t)
    const ids = await workAhead(machine, 2 * HOUR_S)
    await machine.set(0)
    await checkBack(machine, ids)
  })

  test('[M2] [SCD-01] is set right by days after the machine has lost its power', async (t) => {
    if (!machine) return skip(t)
    const ids = await workAhead(machine, 72 * HOUR_S)
    await machine.killAll()
    await machine.set(0)
    await machine.serve()
    await checkBack(machine, ids)
  })
})
