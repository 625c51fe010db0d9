/** The HTTP API over a room of missions, opened before the tests of a file and closed after them. */
import { after, before } from 'node:test'
import type { Api } from '../../src/api/api.ts'
import { call, openTestApi, type TestApi } from './api.ts'
import { type MissionRoom, openMissionRoom } from './missions.ts'

export type Body = Record<string, unknown> & { readonly items?: Body[] }
type Answer = { readonly status: number; readonly body: Body }

export type MissionApi = {
  readonly api: TestApi
  readonly room: MissionRoom
  readonly app: Api
  /** Default: as the writer. */
  ask(method: string, path: string, body?: unknown, key?: string): Promise<Answer>
}

export function useMissionApi(): MissionApi {
  let opened: Omit<MissionApi, 'ask'> | undefined
  before(async () => {
    const api = await openTestApi()
    const room = await openMissionRoom({ on: { clock: api.world, tenant: api.ours } })
    const app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
    opened = { api, room, app }
  })
  after(async () => {
    await opened?.room.close()
    await opened?.api.close()
  })
  const now = () => {
    if (!opened) throw new Error('The API is open during tests only.')
    return opened
  }
  return {
    get api() {
      return now().api
    },
    get room() {
      return now().room
    },
    get app() {
      return now().app
    },
    async ask(method, path, body, key = now().api.ours.people.writer.key) {
      const headers = { 'x-workspace': 'main' }
      const answer = await call(now().app, path, { method, key, headers, ...(body === undefined ? {} : { body }) })
      return { status: answer.status, body: (await answer.json()) as Body }
    },
  }
}
