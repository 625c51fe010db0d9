/** The turns of an alert: the administrators are told in the app, then every channel outside; the runtime tries a failed turn again. */
import type { Drive } from '#runtime'
import { type AlertDeps, findOpenIncident, tellAdmins, tellChannels } from './alerts.ts'

export function openAlertDrive(deps: AlertDeps): Drive {
  return async (eventId, { signal }) => {
    const open = await findOpenIncident(deps, eventId)
    if (!open) return { t: 'done' }
    await tellAdmins(deps, open)
    const failure = await tellChannels(deps, open, signal)
    if (failure) throw failure
    return { t: 'done' }
  }
}
