import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HexFormat;

/**
 * Prints the subjects of certificates as ZooKeeper's x509 scheme knows them. Each line of the input
 * is a certificate in hexadecimal DER. Each line of the output is its subject in hexadecimal UTF-8,
 * or "-" if Java cannot read the certificate.
 */
public class Subjects {
    public static void main(String[] arguments) throws IOException, CertificateException {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        HexFormat hex = HexFormat.of();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String subject = "-";
            try {
                ByteArrayInputStream der = new ByteArrayInputStream(hex.parseHex(line));
                X509Certificate certificate = (X509Certificate) factory.generateCertificate(der);
                String name = certificate.getSubjectX500Principal().getName();
                subject = hex.formatHex(name.getBytes(StandardCharsets.UTF_8));
            } catch (CertificateException error) {
                // It is reported as "-".
            }
            System.out.println(subject);
        }
    }
}
