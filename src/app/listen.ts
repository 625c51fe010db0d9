/** Listens for requests, or says who holds the port. */
import { type ServedApi, serve } from '#api'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { findPortHolder } from '#store'
import type { Config } from './config.ts'
import type { SystemDeps } from './system-deps.ts'

export async function listen(
  api: Parameters<typeof serve>[0],
  { host, port }: Pick<Config, 'host' | 'port'>,
  { randomBytes }: Pick<SystemDeps, 'randomBytes'>,
): Promise<Decision<ServedApi>> {
  try {
    return accept(await serve(api, { host, port, randomBytes }))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      const holder = await findPortHolder(port)
      const by = holder ? ` by process ${holder.pid} (${holder.command.slice(0, 64)})` : ''
      return refuse('app.port.taken', `port ${port} on ${host} is taken${by}`, {
        path: 'CONCORD_PORT',
        hint: 'stop that program, or set CONCORD_PORT to another port',
      })
    }
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EACCES') {
      return refuse('app.setting.invalid', `this machine cannot listen on ${host}:${port} (${code})`, {
        path: 'CONCORD_HOST',
        hint: 'set CONCORD_HOST=127.0.0.1, and a CONCORD_PORT above 1023',
      })
    }
    throw error
  }
}
