/** The API with a flow room: DAGs are deployed by commands over HTTP, and the test drains, sweeps and works. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { Api } from '../../src/api/api.ts'
import { type ArtifactDeps, openArtifactTypes, openDiskStore } from '../../src/domains/artifacts/index.ts'
import { undoDefinitions } from '../../src/domains/commands/index.ts'
import {
  dagArtifactType,
  type DataStore,
  defineOperator,
  deployDefinitions,
  drainFlow,
  type FlowDeps,
  openOperators,
  type Operator,
} from '../../src/domains/flow/index.ts'
import { decodeId } from '../../src/kernel/ids.ts'
import { openNotices } from '../../src/store/index.ts'
import { call, openTestApi, type TestApi } from './api.ts'
import { CONTENT_BYTES_MAX } from './artifacts.ts'
import { openRoomOn, type TestRoom } from './commands.ts'
import { accepted } from './tenant.ts'

export type Body = Record<string, unknown>
type Answer = { readonly status: number; readonly body: Body }

export type FlowApi = {
  readonly api: TestApi
  readonly app: Api
  readonly room: TestRoom
  readonly deps: FlowDeps
  post(path: string, body?: unknown, key?: string): Promise<Answer>
  get(path: string, key?: string): Promise<Answer>
  /** Submits a command over HTTP and runs it to its end. Returns its id and its status. */
  command(taskName: string, payload: Body): Promise<{ readonly id: string; readonly status: string }>
  /** Until the outbox has nothing due. */
  drain(): Promise<void>
  close(): Promise<void>
}

const anyOperator = (name: string): Operator => defineOperator({ name, config: z.record(z.string(), z.json()) })

export async function openFlowApi(more: Partial<FlowDeps> = {}, operators: readonly Operator[] = []): Promise<FlowApi> {
  const api = await openTestApi({}, { poolMax: 8 })
  const notices = openNotices(api.deps.db)
  const folder = await mkdtemp(join(tmpdir(), 'concord-flow-'))
  const { db, now, newId } = api.world
  const store = openDiskStore({ folder, newId, contentBytesMax: CONTENT_BYTES_MAX })
  const artifacts: ArtifactDeps = {
    db,
    now,
    newId,
    types: accepted(openArtifactTypes([dagArtifactType])),
    stores: [store],
  }
  const room: TestRoom = openRoomOn(
    api.world,
    api.ours,
    (world) => ({ ...world, artifacts }),
    () => [...deployDefinitions(() => deps), ...undoDefinitions(() => room.world)],
  )
  const deps: FlowDeps = {
    commands: room.world,
    runtime: {
      wake: async (process) => void room.others.push(process),
      schedule: () => Promise.reject(new Error('not here')),
      unschedule: async () => false,
    },
    operators: openOperators([anyOperator('pull'), anyOperator('count_rows'), ...operators], fetch),
    random: () => 0,
    data: {} as DataStore,
    announce: (channel) => notices.announce(channel),
    keepAlive: () => async () => {},
    ...more,
  }
  const work = { commands: room.world, approvals: room.approvals, webhooks: [], flow: deps }
  // Without a notice a claim would look again after an hour.
  const app = api.with({ work, feed: { notices, channel: 'concord_events', pollMs: 3_600_000 } })
  const ask = async (method: string, path: string, key: string, body?: unknown) => {
    const answer = await call(app, path, { method, key, headers: { 'x-workspace': 'main' }, body })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const writer = api.ours.people.writer.key
  const flow: FlowApi = {
    api,
    app,
    room,
    deps,
    post: (path, body, key = writer) => ask('POST', path, key, body),
    get: (path, key = writer) => ask('GET', path, key),
    async command(task_name, payload) {
      const { body } = await flow.post('/commands', { task_name, payload })
      const id = accepted(decodeId('command', String(body['command_id'])))
      return { id, status: await room.settle(id) }
    },
    async drain() {
      while ((await drainFlow(deps)).claimed > 0);
    },
    async close() {
      await notices.close()
      await room.close()
      await api.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
  return flow
}
