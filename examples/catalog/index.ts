/** The example catalog: seven realistic tasks, ready for a project's `concord.config.ts`. */
import type { Definition } from '#domains/commands'
import { appNotification } from './app-notification.ts'
import { bookHotel, bookHotelExample } from './book-hotel.ts'
import { draftBooking, draftBookingExample } from './draft-booking.ts'
import { type ExampleOptions, undoRetry } from './example-options.ts'
import { generateReport, generateReportExample } from './generate-report.ts'
import { publishReport, publishReportExample } from './publish-report.ts'
import { rankHotels, rankHotelsExample } from './rank-hotels.ts'
import { searchHotels, searchHotelsExample } from './search-hotels.ts'
import { syncVendorData, syncVendorDataExample } from './sync-vendor-data.ts'

export type { ExampleOptions } from './example-options.ts'
export { travelPreferences } from './travel-preferences.ts'

/** Without the shipped policies, which every installation has. */
export function exampleCatalog(options: ExampleOptions): readonly Definition[] {
  return [
    appNotification,
    ...generateReport(),
    ...publishReport(options),
    ...searchHotels(options),
    ...rankHotels(),
    ...draftBooking(options),
    ...bookHotel(options),
    ...syncVendorData(options),
    ...undoRetry(options),
  ]
}

/** A valid payload for each task. */
export const examplePayloads = {
  'Generate Report': generateReportExample,
  'Publish Report': publishReportExample,
  'Search Hotels': searchHotelsExample,
  'Rank Hotels': rankHotelsExample,
  'Draft Booking': draftBookingExample,
  'Book Hotel': bookHotelExample,
  'Sync Vendor Data': syncVendorDataExample,
} as const
